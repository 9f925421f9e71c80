# The destinations of `cmake --install`, and the packages for find_package(pleiad) and pkg-config. The installed files
# may be moved together: they find each other by relative paths.
install(TARGETS pleiad_base pleiad pleiad_nn pleiad_job multiverso EXPORT pleiad
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(pleiad_base pleiad pleiad_nn pleiad_job multiverso PROPERTIES INSTALL_RPATH "$ORIGIN")
if(PLEIAD_MPI)
  # The library finds its MPI module in its own folder.
  install(TARGETS pleiad_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# The library also starts the program for HDF5 files from there.
install(TARGETS pleiad_hdf5 RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/pleiad ${PROJECT_SOURCE_DIR}/include/multiverso
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.hpp)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/pleiad)
install(EXPORT pleiad NAMESPACE pleiad:: FILE pleiadTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/pleiadConfig.cmake.in ${PROJECT_BINARY_DIR}/pleiadConfig.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pleiadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pleiadConfig.cmake ${PROJECT_BINARY_DIR}/pleiadConfigVersion.cmake
  DESTINATION ${package_folder})

file(RELATIVE_PATH pc_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
foreach(name IN ITEMS pleiad pleiad_nn pleiad_job multiverso)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
