// CRC-32 as zlib, PNG and gzip compute it: the checksum at the end of a model file.
#pragma once

#include <cstdint>
#include <string_view>

namespace sparcl {

uint32_t crc32(std::string_view bytes);

}  // namespace sparcl
