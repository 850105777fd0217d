# SPDX-License-Identifier: Apache-2.0
# What an installation holds beside the files that each folder installs: package files for pkg-config and CMake, the
# manual page. An installed tree may be moved: nothing in it names its own path.
include(CMakePackageConfigHelpers)
# Libraries that we use may lie where the loader does not look (libfabric of a vendor): their folders stay known.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(PERSEUS_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/perseus)

function(perseus_install_library name)
    file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
    configure_file(${name}.pc.in ${name}.pc @ONLY)
    install(TARGETS ${name} EXPORT perseus COMPONENT library)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT library)
endfunction()

# find_package(perseus) gives perseus::perseus, perseus::perseus_static and perseus::perseus_moe.
function(perseus_install_package)
    configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/perseus-config.cmake.in
        ${CMAKE_BINARY_DIR}/perseus-config.cmake INSTALL_DESTINATION ${PERSEUS_PACKAGE})
    write_basic_package_version_file(${CMAKE_BINARY_DIR}/perseus-config-version.cmake
        COMPATIBILITY SameMinorVersion)
    install(EXPORT perseus NAMESPACE perseus:: FILE perseus-targets.cmake DESTINATION ${PERSEUS_PACKAGE}
        COMPONENT library)
    install(FILES ${CMAKE_BINARY_DIR}/perseus-config.cmake ${CMAKE_BINARY_DIR}/perseus-config-version.cmake
        DESTINATION ${PERSEUS_PACKAGE} COMPONENT library)
    install(FILES ${CMAKE_SOURCE_DIR}/man/perseus.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()
