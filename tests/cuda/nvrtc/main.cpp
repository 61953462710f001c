// Compiles one CUDA source with NVRTC to SASS for one GPU architecture and prints the compiler's log.
//   nvrtc sm_90 SOURCE OPTION...
// Exit status: 0 a cubin was made, 1 the source does not compile, 2 NVRTC cannot be used.
#include <nvrtc.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

bool check(nvrtcResult result, const char* call) {
    if (result == NVRTC_SUCCESS) return true;
    std::fprintf(stderr, "%s: %s\n", call, nvrtcGetErrorString(result));
    return false;
}

void print_log(nvrtcProgram program) {
    size_t size = 0;
    if (!check(nvrtcGetProgramLogSize(program, &size), "nvrtcGetProgramLogSize") || size <= 1) return;
    std::string log(size, '\0');
    if (check(nvrtcGetProgramLog(program, log.data()), "nvrtcGetProgramLog")) std::fputs(log.c_str(), stderr);
}

int compile(const std::string& source, const char* name, const std::vector<const char*>& options) {
    nvrtcProgram program = nullptr;
    if (!check(nvrtcCreateProgram(&program, source.c_str(), name, 0, nullptr, nullptr), "nvrtcCreateProgram")) return 2;
    nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
    print_log(program);
    size_t size = 0;
    int status = 1;
    if (check(result, "nvrtcCompileProgram") && check(nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize")) {
        std::printf("%zu bytes of SASS\n", size);
        status = size > 0 ? 0 : 1;
    }
    nvrtcDestroyProgram(&program);
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: nvrtc sm_90 SOURCE OPTION...\n");
        return 2;
    }
    std::ifstream file(argv[2]);
    std::stringstream source;
    if (!(source << file.rdbuf())) {
        std::fprintf(stderr, "cannot read %s\n", argv[2]);
        return 2;
    }
    std::string arch = std::string("--gpu-architecture=") + argv[1];
    std::vector<const char*> options{arch.c_str(), "--std=c++17"};
    options.insert(options.end(), argv + 3, argv + argc);
    return compile(source.str(), argv[2], options);
}
