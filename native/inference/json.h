// JSON from a file that cannot be trusted: strict, and bounded in depth and in the number of values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparcl {

class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };

  // Throws ModelError unless `text` is one JSON value: UTF-8, no key twice in an object.
  static Json parse(std::string_view text);

  bool has(std::string_view key) const;
  // These throw ModelError where the value is of another kind, or there is no such key. `what` names it in the message.
  const Json& at(std::string_view key) const;
  const std::string& string(const char* what) const;
  const std::vector<Json>& array(const char* what) const;
  const std::vector<std::pair<std::string, Json>>& object(const char* what) const;
  double number(const char* what) const;
  int64_t whole(const char* what, int64_t least, int64_t most) const;

 private:
  friend class JsonParser;
  Kind kind_ = Kind::null;
  double number_ = 0.0;
  std::string string_;
  std::vector<Json> array_;
  std::vector<std::pair<std::string, Json>> object_;
};

}  // namespace sparcl
