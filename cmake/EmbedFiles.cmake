# poslab_embed(TARGET NAME DIRECTORY): puts the text of DIRECTORY/*.json into TARGET, so that an installed binary needs
# no path. Generates poslab_NAME.h with
#   std::span<const std::pair<std::string_view, std::string_view>> poslab::NAME_configs();   {file name, text}, by name
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB FILES ${DIRECTORY}/*.json)
  list(SORT FILES)
  set(ENTRIES "")
  set(COUNT 0)
  foreach(FILE ${FILES})
    get_filename_component(FILE_NAME ${FILE} NAME)
    file(READ ${FILE} TEXT)
    string(APPEND ENTRIES "    {\"${FILE_NAME}\", R\"poslab(${TEXT})poslab\"},\n")
    math(EXPR COUNT "${COUNT} + 1")
  endforeach()
  file(WRITE ${OUTPUT}
       "#include \"poslab_${NAME}.h\"\n\n#include <array>\n\nnamespace poslab {\nnamespace {\n"
       "constexpr std::array<std::pair<std::string_view, std::string_view>, ${COUNT}> files{{\n${ENTRIES}}};\n"
       "}  // namespace\n\nstd::span<const std::pair<std::string_view, std::string_view>> ${NAME}_configs() "
       "{ return files; }\n\n}  // namespace poslab\n")
  return()
endif()

set(POSLAB_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(poslab_embed TARGET NAME DIRECTORY)
  set(GENERATED ${CMAKE_BINARY_DIR}/generated)
  file(WRITE ${GENERATED}/poslab_${NAME}.h.new
       "#pragma once\n\n#include <span>\n#include <string_view>\n#include <utility>\n\nnamespace poslab {\n\n"
       "std::span<const std::pair<std::string_view, std::string_view>> ${NAME}_configs();\n\n}  // namespace poslab\n")
  configure_file(${GENERATED}/poslab_${NAME}.h.new ${GENERATED}/poslab_${NAME}.h COPYONLY)
  file(GLOB FILES CONFIGURE_DEPENDS ${DIRECTORY}/*.json)
  add_custom_command(
    OUTPUT ${GENERATED}/poslab_${NAME}.cpp
    COMMAND ${CMAKE_COMMAND} -DNAME=${NAME} -DDIRECTORY=${DIRECTORY} -DOUTPUT=${GENERATED}/poslab_${NAME}.cpp -P
            ${POSLAB_EMBED_SCRIPT}
    DEPENDS ${FILES} ${POSLAB_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${TARGET} PRIVATE ${GENERATED}/poslab_${NAME}.cpp)
  target_include_directories(${TARGET} PRIVATE ${GENERATED})
endfunction()
