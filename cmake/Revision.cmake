# Writes poslab_revision.h with git's revision, touching it only when that changed. Run at every build.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE FAILED)
if(FAILED OR NOT REVISION)
  set(REVISION "unknown")
endif()
set(TEXT "#define POSLAB_REVISION \"${REVISION}\"\n#define POSLAB_VERSION \"${VERSION}\"\n")
set(OLD "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} OLD)
endif()
if(NOT OLD STREQUAL TEXT)
  file(WRITE ${OUTPUT} "${TEXT}")
endif()
