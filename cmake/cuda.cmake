# SPDX-License-Identifier: Apache-2.0
# CUDA is optional: PERSEUS_CUDA says whether kernels are built. They are for compute capability 9.0, with the
# instructions that only it has. Not under sanitizers, which nvcc does not know.
include(CheckLanguage)
find_program(PERSEUS_NVCC nvcc HINTS /usr/local/cuda/bin)
set(PERSEUS_CUDA OFF)
if(PERSEUS_NVCC AND NOT PERSEUS_SANITIZE)
    set(CMAKE_CUDA_COMPILER ${PERSEUS_NVCC} CACHE FILEPATH "nvcc")
    set(CMAKE_CUDA_ARCHITECTURES 90a)
    set(CMAKE_CUDA_STANDARD 17)
    check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER AND NOT PERSEUS_SANITIZE)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(PERSEUS_CUDA ON)
endif()
