# attile_room(NAME [STATIC] [SEES ROOM...] [USES ROOM...] [GENERATED FILE...] [LIBRARIES TARGET...]): the C files of this folder.
#
#   SEES   whose headers the room's own headers include; who sees this room, sees them too
#   USES   whose headers only its C files include
#
# see_NAME carries the include directories, attile_NAME the objects: an include of any other room does not compile. Rooms
# are objects of the library, unless STATIC: those belong to the command.
function(attile_room name)
    cmake_parse_arguments(PARSE_ARGV 1 room "STATIC" "" "SEES;USES;GENERATED;LIBRARIES")
    list(TRANSFORM room_SEES PREPEND see_)
    list(TRANSFORM room_USES PREPEND see_)
    add_library(see_${name} INTERFACE)
    target_include_directories(see_${name} INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(see_${name} INTERFACE ${room_SEES})
    file(GLOB sources CONFIGURE_DEPENDS *.c)
    list(FILTER sources EXCLUDE REGEX "/main\\.c$")
    if(room_STATIC)
        add_library(attile_${name} STATIC ${sources} ${room_GENERATED})
    else()
        add_library(attile_${name} OBJECT ${sources} ${room_GENERATED})
        set_property(GLOBAL APPEND PROPERTY ATTILE_ROOMS ${name})
    endif()
    target_link_libraries(attile_${name} PRIVATE see_${name} ${room_USES} ${room_LIBRARIES})
    if(room_GENERATED)
        target_include_directories(attile_${name} PRIVATE ${ATTILE_EMBED_INCLUDE})
    endif()
endfunction()
