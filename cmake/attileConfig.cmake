# find_package(attile): the targets attile::attile_shared and attile::attile_static.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(PkgConfig)
pkg_check_modules(YAML QUIET IMPORTED_TARGET yaml-0.1) # what the static library needs at link time
pkg_check_modules(XXHASH QUIET IMPORTED_TARGET libxxhash)
include(${CMAKE_CURRENT_LIST_DIR}/attileTargets.cmake)
