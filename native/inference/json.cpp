#include "json.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "model_error.h"

namespace sparcl {

namespace {

constexpr int deepest = 16;
constexpr int64_t max_values = 1 << 20;

// How many bytes the UTF-8 character at the start of `text` has; 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    if (first == 0xE0 && byte(1) < 0xA0) return 0;   // could be shorter
    if (first == 0xED && byte(1) >= 0xA0) return 0;  // half of a pair
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5) {
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) >= 0x90) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_utf8(std::string& text, uint32_t code) {
  const auto add = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F)), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  }
}

[[noreturn]] void refuse(const char* why) { throw ModelError(std::string("its header is not valid JSON: ") + why); }

}  // namespace

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = parse(0);
    skip_space();
    if (place_ != text_.size()) refuse("something follows its end");
    return value;
  }

 private:
  char peek() const { return place_ < text_.size() ? text_[place_] : '\0'; }

  void skip_space() {
    while (place_ < text_.size() && std::strchr(" \t\r\n", text_[place_]) != nullptr && text_[place_] != '\0') ++place_;
  }

  bool take(char wanted) {
    skip_space();
    if (place_ >= text_.size() || text_[place_] != wanted) return false;
    ++place_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (text_.substr(place_, word.size()) != word) return false;
    place_ += word.size();
    return true;
  }

  Json parse(int depth) {
    if (depth > deepest) refuse("it is nested too deeply");
    if (++values_ > max_values) refuse("it has too many values");
    skip_space();
    Json value;
    switch (peek()) {
      case '{':
        parse_object(value, depth);
        break;
      case '[':
        parse_array(value, depth);
        break;
      case '"':
        value.kind_ = Json::Kind::string;
        value.string_ = parse_string();
        break;
      case 't':
      case 'f':
        value.kind_ = Json::Kind::boolean;
        if (!take_word(peek() == 't' ? "true" : "false")) refuse("there is an unknown word");
        break;
      case 'n':
        if (!take_word("null")) refuse("there is an unknown word");
        break;
      default:
        value.kind_ = Json::Kind::number;
        value.number_ = parse_number();
    }
    return value;
  }

  void parse_object(Json& value, int depth) {
    value.kind_ = Json::Kind::object;
    ++place_;
    if (take('}')) return;
    std::unordered_set<std::string> known;
    do {
      skip_space();
      if (peek() != '"') refuse("a key is missing");
      std::string key = parse_string();
      if (!known.insert(key).second) refuse("a key stands there twice");
      if (!take(':')) refuse("a colon is missing");
      value.object_.emplace_back(std::move(key), parse(depth + 1));
    } while (take(','));
    if (!take('}')) refuse("a brace is missing");
  }

  void parse_array(Json& value, int depth) {
    value.kind_ = Json::Kind::array;
    ++place_;
    if (take(']')) return;
    do {
      value.array_.push_back(parse(depth + 1));
    } while (take(','));
    if (!take(']')) refuse("a bracket is missing");
  }

  double parse_number() {
    size_t end = place_;
    while (end < text_.size() && std::strchr("+-.eE0123456789", text_[end]) != nullptr && text_[end] != '\0') ++end;
    double number = 0.0;
    const char* first = text_.data() + place_;
    const auto [stop, error] = std::from_chars(first, text_.data() + end, number);
    if (end == place_ || error != std::errc() || stop != text_.data() + end) refuse("there is something unknown");
    if (!std::isfinite(number)) refuse("a number is not finite");
    place_ = end;
    return number;
  }

  uint32_t parse_hex() {
    if (text_.size() - place_ < 4) refuse("it ends within a string");
    uint32_t code = 0;
    const char* first = text_.data() + place_;
    const auto [stop, error] = std::from_chars(first, first + 4, code, 16);
    if (error != std::errc() || stop != first + 4) refuse("an escaped character is unknown");
    place_ += 4;
    return code;
  }

  void parse_escape(std::string& text) {
    const char kind = peek();
    ++place_;
    switch (kind) {
      case '"':
      case '\\':
      case '/':
        text.push_back(kind);
        return;
      case 'b':
        text.push_back('\b');
        return;
      case 'f':
        text.push_back('\f');
        return;
      case 'n':
        text.push_back('\n');
        return;
      case 'r':
        text.push_back('\r');
        return;
      case 't':
        text.push_back('\t');
        return;
      case 'u':
        break;
      default:
        refuse("an escaped character is unknown");
    }
    uint32_t code = parse_hex();
    if (code >= 0xD800 && code < 0xDC00) {
      if (!take_word("\\u")) refuse("half a character stands alone");
      const uint32_t second = parse_hex();
      if (second < 0xDC00 || second >= 0xE000) refuse("half a character stands alone");
      code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      refuse("half a character stands alone");
    }
    append_utf8(text, code);
  }

  std::string parse_string() {
    std::string text;
    ++place_;
    while (true) {
      if (place_ >= text_.size()) refuse("it ends within a string");
      const char next = text_[place_];
      if (next == '"') {
        ++place_;
        return text;
      }
      if (next == '\\') {
        ++place_;
        parse_escape(text);
        continue;
      }
      if (static_cast<unsigned char>(next) < 0x20) refuse("a string holds a control character");
      const size_t length = utf8_length(text_.substr(place_));
      if (length == 0) refuse("a string is not UTF-8");
      text.append(text_.substr(place_, length));
      place_ += length;
    }
  }

  std::string_view text_;
  size_t place_ = 0;
  int64_t values_ = 0;
};

Json Json::parse(std::string_view text) { return JsonParser(text).whole(); }

bool Json::has(std::string_view key) const {
  for (const auto& [name, value] : object_)
    if (name == key) return true;
  return false;
}

const Json& Json::at(std::string_view key) const {
  for (const auto& [name, value] : object_)
    if (name == key) return value;
  throw ModelError("its header has no '" + std::string(key) + "' where one is needed");
}

const std::string& Json::string(const char* what) const {
  expect(kind_ == Kind::string, std::string("its header has no text for ") + what);
  return string_;
}

const std::vector<Json>& Json::array(const char* what) const {
  expect(kind_ == Kind::array, std::string("its header has no list for ") + what);
  return array_;
}

const std::vector<std::pair<std::string, Json>>& Json::object(const char* what) const {
  expect(kind_ == Kind::object, std::string("its header has no object for ") + what);
  return object_;
}

double Json::number(const char* what) const {
  expect(kind_ == Kind::number, std::string("its header has no number for ") + what);
  return number_;
}

int64_t Json::whole(const char* what, int64_t least, int64_t most) const {
  const double found = number(what);
  expect(found == std::floor(found) && found >= static_cast<double>(least) && found <= static_cast<double>(most),
         std::string("its header has an impossible number for ") + what);
  return static_cast<int64_t>(found);
}

}  // namespace sparcl
