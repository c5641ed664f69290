// The remainder of the bytes, taken as one long polynomial over bits, divided by 0xEDB88320 (reflected).
//
// Eight bytes are taken together ("slicing by 8"): table[k][b] is the remainder of byte b with k bytes of zeros behind
// it, so the remainders of eight bytes are looked up independently of each other, and their sum (xor) is that of all.
#include "crc32.h"

#include <array>

namespace sparcl {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0xEDB88320u : 0u);
    tables[0][byte] = rest;
  }
  for (size_t zeros = 1; zeros < tables.size(); ++zeros)
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

uint32_t crc32(std::string_view bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const unsigned char* const end = at + bytes.size();
  uint32_t rest = ~uint32_t{0};
  for (; end - at >= 8; at += 8) {
    rest = tables[7][(rest ^ at[0]) & 0xFF] ^ tables[6][(rest >> 8 ^ at[1]) & 0xFF] ^
           tables[5][(rest >> 16 ^ at[2]) & 0xFF] ^ tables[4][(rest >> 24 ^ at[3]) & 0xFF] ^ tables[3][at[4]] ^
           tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
  }
  for (; at != end; ++at) rest = (rest >> 8) ^ tables[0][(rest ^ *at) & 0xFF];
  return ~rest;
}

}  // namespace sparcl
