# attile_embed(OUTPUT SYMBOL BASE_DIR FILE...): a C file that carries the files as table SYMBOL (see embedded.h).
add_executable(attile_embed ${CMAKE_CURRENT_LIST_DIR}/embed.c)
set(ATTILE_EMBED_INCLUDE ${CMAKE_CURRENT_LIST_DIR})

function(attile_embed output symbol base)
    add_custom_command(
        OUTPUT ${output}
        COMMAND attile_embed ${symbol} ${base} ${ARGN} > ${output}
        DEPENDS attile_embed ${ARGN}
        VERBATIM)
endfunction()
