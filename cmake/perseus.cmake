# SPDX-License-Identifier: Apache-2.0
# One way to declare a layer, a test and a fuzz target.

add_library(perseus_options INTERFACE)
target_compile_definitions(perseus_options INTERFACE _GNU_SOURCE)
target_compile_options(perseus_options INTERFACE
    "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wpointer-arith;-Wundef;-Wvla;-fvisibility=hidden;-fno-omit-frame-pointer>"
    "$<$<COMPILE_LANGUAGE:C>:-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-fvisibility=hidden>")
if(PERSEUS_WERROR)
    target_compile_options(perseus_options INTERFACE $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Werror>)
endif()
target_include_directories(perseus_options INTERFACE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
if(PERSEUS_SANITIZE)
    target_compile_options(perseus_options INTERFACE -fsanitize=${PERSEUS_SANITIZE}
        -fno-sanitize-recover=all)
    target_link_options(perseus_options INTERFACE -fsanitize=${PERSEUS_SANITIZE})
endif()

# perseus_layer(<name> SOURCES a.c ... [USES layer ...] [LINK target ...])
# The folder of its sources as a static library prs_<name>. It may include, and is linked with, the layers that USES
# names and what those use: here is the one place that says so. scripts/style-check reads these calls and
# holds every #include to them; a folder that lies inside a layer's and is none belongs to that layer.
function(perseus_layer name)
    cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINK" ${ARGN})
    add_library(prs_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(prs_${name} PUBLIC perseus_options ${ARG_LINK} Threads::Threads)
    foreach(layer IN LISTS ARG_USES)
        target_link_libraries(prs_${name} PUBLIC prs_${layer})
    endforeach()
    set_property(GLOBAL PROPERTY PERSEUS_USES_${name} ${ARG_USES})
endfunction()

# perseus_objects(<out> <layer>): the objects of a layer and of all that it uses.
function(perseus_objects out name)
    set(objects $<TARGET_OBJECTS:prs_${name}>)
    get_property(uses GLOBAL PROPERTY PERSEUS_USES_${name})
    foreach(layer IN LISTS uses)
        perseus_objects(theirs ${layer})
        list(APPEND objects ${theirs})
    endforeach()
    list(REMOVE_DUPLICATES objects)
    set(${out} ${objects} PARENT_SCOPE)
endfunction()

# perseus_library(<name> <layer> HEADERS perseus/a.h ...)
# What users link: a layer and all that it uses, as lib<name>.so, which exports what base/export.h marks. It is
# installed with its headers, with <name>.pc (made from <name>.pc.in here), and in the CMake package (install.cmake).
function(perseus_library name layer)
    cmake_parse_arguments(ARG "" "" "HEADERS" ${ARGN})
    perseus_objects(objects ${layer})
    add_library(${name} SHARED ${objects})
    target_link_libraries(${name} PRIVATE prs_${layer}) # for the libraries that the layers need
    # Never unmapped: a PE that was not finalized before dlclose has threads (its proxy, PE 0's hub) that still run
    # this code, and every thread that saw an error has a destructor in it.
    target_link_options(${name} PRIVATE -Wl,-z,nodelete)
    target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR})
    perseus_install_library(${name})
    list(TRANSFORM ARG_HEADERS PREPEND ${CMAKE_SOURCE_DIR}/include/)
    install(FILES ${ARG_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/perseus COMPONENT library)
endfunction()

# perseus_executable(<name> SOURCES a.c ... [USES layer ...] [LINK target ...])
# A program; what is said of layers holds for it.
function(perseus_executable name)
    cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINK" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE perseus_options ${ARG_LINK} Threads::Threads)
    foreach(layer IN LISTS ARG_USES)
        target_link_libraries(${name} PRIVATE prs_${layer})
    endforeach()
endfunction()

# perseus_test(<x_test> LABELS unit ... SOURCES a.c ... [LINK target ...] [TIMEOUT s] [ARGS arg ...])
# A cmocka program registered with ctest; exit code 77 is a skip. PERSEUS_NO_SKIP=1 in the environment turns
# skips into failures (tests/support/skip.h).
function(perseus_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;SOURCES;LINK;ARGS" ${ARGN})
    if(NOT name MATCHES "_test(_[a-z]+)?$") # else it may be called as something that is built for users is
        message(FATAL_ERROR "perseus_test(${name}): name it ${name}_test")
    endif()
    add_executable(${name} ${ARG_SOURCES})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${name} PRIVATE perseus_options ${ARG_LINK} PkgConfig::CMOCKA Threads::Threads)
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
    if(NOT ARG_TIMEOUT AND PERSEUS_SANITIZE)
        set(ARG_TIMEOUT 600) # ten times slower and starved on few cores
    elseif(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 120)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77
        TIMEOUT ${ARG_TIMEOUT})
endfunction()

# perseus_fuzz(<name> SOURCES a.c ... [LINK target ...] CORPUS dir)
# A libFuzzer target; ctest runs its corpus plus a short bounded fuzz.
function(perseus_fuzz name)
    if(NOT PERSEUS_FUZZ)
        return()
    endif()
    cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE perseus_options ${ARG_LINK})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz/work-${name})
    add_test(NAME ${name} COMMAND ${name} -max_total_time=15 -timeout=5 -print_final_stats=1
        ${CMAKE_BINARY_DIR}/fuzz/work-${name} ${ARG_CORPUS})
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
    if(NOT TARGET perseus_fuzzers)
        add_custom_target(perseus_fuzzers) # what the build preset fuzz builds
    endif()
    add_dependencies(perseus_fuzzers ${name})
endfunction()
