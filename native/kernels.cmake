# The kernels, compiled once for each instruction set (SPARCL_KERNEL_OBJECTS), and what stands around them without
# Python (SPARCL_LIBRARY_SOURCES). Shared by the package, the library for C and the tests, so that what is tested is what
# is shipped. native/dispatch.cpp chooses an instruction set at run time.
include(${CMAKE_CURRENT_LIST_DIR}/instruction_sets.cmake)
find_package(Threads REQUIRED)

# Sanitizers make the kernels large: there less optimisation keeps compiling fast.
set(optimisation -O3)
if(SPARCL_SANITIZE)
  set(optimisation -O1 -g1)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()

# While developing, only the kernels that this machine runs need to be fast: -DSPARCL_OPTIMISE=v4
set(SPARCL_OPTIMISE "" CACHE STRING "The only instruction set whose kernels are optimised (empty: all)")

set(SPARCL_KERNEL_OBJECTS)
foreach(isa IN LISTS SPARCL_INSTRUCTION_SETS)
  set(optimisation_of_set ${optimisation})
  if(SPARCL_OPTIMISE AND NOT SPARCL_OPTIMISE STREQUAL isa)
    set(optimisation_of_set -O0)
  endif()
  add_library(kernels_${isa} OBJECT ${CMAKE_CURRENT_LIST_DIR}/kernels/kernels.cpp
                                    ${CMAKE_CURRENT_LIST_DIR}/kernels/flat.cpp)
  target_compile_definitions(kernels_${isa} PRIVATE SPARCL_ISA=${isa})
  target_compile_options(kernels_${isa} PRIVATE ${SPARCL_MARCH_${isa}} ${optimisation_of_set} -Wall -Wextra -fno-math-errno
                                                -fno-trapping-math -ffp-contract=fast)
  list(APPEND SPARCL_KERNEL_OBJECTS $<TARGET_OBJECTS:kernels_${isa}>)
endforeach()

file(GLOB SPARCL_LIBRARY_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/engine/*.cpp
     ${CMAKE_CURRENT_LIST_DIR}/inference/*.cpp ${CMAKE_CURRENT_LIST_DIR}/parallel/*.cpp)
list(APPEND SPARCL_LIBRARY_SOURCES ${CMAKE_CURRENT_LIST_DIR}/dispatch.cpp)
