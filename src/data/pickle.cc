#include "data/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::data {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::dict) return nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if ((items[i]->kind == Kind::text || items[i]->kind == Kind::bytes) && items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

/// The pickle machine without calls. Every instruction makes at most one value, so the file's size limits the memory.
class Pickle::Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& where)
      : all_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), where_(where) {
    while (step()) {
    }
  }

  [[nodiscard]] PickleValue* root() const { return root_; }

  std::string& own(std::string text) { return texts_.emplace_back(std::move(text)); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: at byte {}: {}", where_, at_, what));
  }

  std::string_view take(std::uint64_t length) {
    if (length > all_.size() - at_) {
      fail(fmt::format("the pickle is truncated: {} bytes should follow, but only {} are left", length,
                       all_.size() - at_));
    }
    const std::string_view part = all_.substr(at_, static_cast<std::size_t>(length));
    at_ += part.size();
    return part;
  }
  template <class T>
  T number() {
    T value;
    take(sizeof value).copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::string_view line() {
    const std::size_t end = all_.find('\n', at_);
    if (end == std::string_view::npos) fail("the pickle is truncated: a line has no end");
    const std::string_view text = take(end - at_);
    ++at_;
    return text;
  }
  std::int64_t integer(std::string_view text) const {
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size()) {
      fail(fmt::format("expected a number, received \"{}\"", printable(text.substr(0, 40))));
    }
    return value;
  }

  PickleValue* make(Kind kind) {
    PickleValue& value = values_.emplace_back();
    value.kind = kind;
    return &value;
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(std::int64_t number, Kind kind = Kind::integer) {
    push(make(kind));
    stack_.back()->integer = number;
  }
  void push_real(double number) {
    push(make(Kind::real));
    stack_.back()->real = number;
  }
  void push_text(std::string_view text, Kind kind) {
    push(make(kind));
    stack_.back()->text = text;
  }

  PickleValue* pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()))
      fail("the pickle pops from an empty stack");
    PickleValue* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top(Kind kind, const char* what) {
    if (stack_.empty() || stack_.back()->kind != kind) fail(fmt::format("expected {}", what));
    return stack_.back();
  }
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty()) fail("the pickle refers to a missing mark");
    const std::size_t first = marks_.back();
    marks_.pop_back();
    std::vector<PickleValue*> values(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    return values;
  }
  void push_items(Kind kind, std::vector<PickleValue*> items) {
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a dict has a key without a value");
    push(make(kind));
    stack_.back()->items = std::move(items);
  }
  void push_tuple(std::size_t count) {
    std::vector<PickleValue*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::tuple, std::move(items));
  }
  void extend(Kind kind, const char* what, const std::vector<PickleValue*>& items) {
    PickleValue* const to = top(kind, what);
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a dict has a key without a value");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  void push_global(std::string_view module, std::string_view name) {
    // A text may be named many times, so its length limits the memory.
    constexpr std::size_t kLongest = 1024;
    if (module.size() + name.size() > kLongest) {
      fail(fmt::format("expected a name of at most {} characters; received {}", kLongest, module.size() + name.size()));
    }
    push_text(own(fmt::format("{} {}", module, name)), Kind::global);
  }
  void call() {
    PickleValue* const arguments = pop();
    PickleValue* const callable = pop();
    push_items(Kind::object, {callable, arguments});
  }
  void keep(std::uint64_t place) {
    if (stack_.empty()) fail("the pickle stores from an empty stack");
    memo_[place] = stack_.back();
  }
  void recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail(fmt::format("the pickle recalls {}, which it has not stored", place));
    push(found->second);
  }

  /// Reads an integer of `length` bytes. Integers of more than 64 bits become reals, because no count or label is that
  /// long.
  void push_long(std::uint64_t length) {
    const std::string_view bytes = take(length);
    if (bytes.size() > 8) return push_real(0);
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & 0x80) != 0)
      value |= ~std::uint64_t{0} << (8 * bytes.size());
    push_integer(static_cast<std::int64_t>(value));
  }

  void push_float() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    push_real(value);
  }

  /// Reads a quoted string of protocol 0. Leaves escapes as they are, because names and numbers contain none.
  void push_quoted() {
    std::string_view text = line();
    if (text.size() < 2 || text.front() != text.back() || (text.front() != '\'' && text.front() != '"')) {
      fail("expected a quoted string");
    }
    text.remove_prefix(1);
    text.remove_suffix(1);
    push_text(text, Kind::bytes);
  }

  bool step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    switch (code) {
      case '.': root_ = pop(); return false;
      case 0x80: take(1); break;  // the protocol number
      case 0x95: take(8); break;  // a frame
      case '(': marks_.push_back(stack_.size()); break;
      case '0':
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
        } else {
          pop();
        }
        break;
      case '1': pop_to_mark(); break;
      case '2':
        push(pop());
        push(stack_.back());
        break;
      case 'N': push(make(Kind::none)); break;
      case 0x88: push_integer(1, Kind::boolean); break;
      case 0x89: push_integer(0, Kind::boolean); break;
      case 'J': push_integer(number<std::int32_t>()); break;
      case 'K': push_integer(number<std::uint8_t>()); break;
      case 'M': push_integer(number<std::uint16_t>()); break;
      case 'I': {
        const std::string_view text = line();
        const bool boolean = text == "00" || text == "01";
        push_integer(integer(text), boolean ? Kind::boolean : Kind::integer);
        break;
      }
      case 'L': push_integer(integer(line())); break;
      case 0x8A: push_long(number<std::uint8_t>()); break;
      case 0x8B: push_long(number<std::uint32_t>()); break;
      case 'F': line(), push_real(0); break;
      case 'G': push_float(); break;
      case 'S': push_quoted(); break;
      case 'T': push_text(take(number<std::uint32_t>()), Kind::bytes); break;
      case 'U':
      case 'C': push_text(take(number<std::uint8_t>()), Kind::bytes); break;
      case 'B': push_text(take(number<std::uint32_t>()), Kind::bytes); break;
      case 0x8E:
      case 0x96: push_text(take(number<std::uint64_t>()), Kind::bytes); break;
      case 'V': push_text(line(), Kind::text); break;
      case 'X': push_text(take(number<std::uint32_t>()), Kind::text); break;
      case 0x8C: push_text(take(number<std::uint8_t>()), Kind::text); break;
      case 0x8D: push_text(take(number<std::uint64_t>()), Kind::text); break;
      case ']': push_items(Kind::list, {}); break;
      case '}': push_items(Kind::dict, {}); break;
      case ')': push_items(Kind::tuple, {}); break;
      case 'l': push_items(Kind::list, pop_to_mark()); break;
      case 'd': push_items(Kind::dict, pop_to_mark()); break;
      case 't': push_items(Kind::tuple, pop_to_mark()); break;
      case 0x85: push_tuple(1); break;
      case 0x86: push_tuple(2); break;
      case 0x87: push_tuple(3); break;
      default: return step_more(code);
    }
    return true;
  }

  bool step_more(unsigned char code) {
    switch (code) {
      case 'a': {
        PickleValue* const item = pop();
        extend(Kind::list, "a list to append to", {item});
        break;
      }
      case 'e': {
        const auto items = pop_to_mark();
        extend(Kind::list, "a list to append to", items);
        break;
      }
      case 's': {
        PickleValue* const value = pop();
        PickleValue* const key = pop();
        set_items({key, value});
        break;
      }
      case 'u': set_items(pop_to_mark()); break;
      case 'c': {
        const std::string_view module = line();
        push_global(module, line());
        break;
      }
      case 0x93: {
        const PickleValue* const name = pop();
        const PickleValue* const module = pop();
        if (name->kind != Kind::text || module->kind != Kind::text) {
          fail("expected a module and a name as texts; received other values");
        }
        push_global(module->text, name->text);
        break;
      }
      case 'R':
      case 0x81: call(); break;
      case 'b': {
        PickleValue* const state = pop();
        top(Kind::object, "an object to build")->state = state;
        break;
      }
      case 'Q': {  // a persistent id, whose meaning only the application knows
        PickleValue* const name = pop();
        push_items(Kind::other, {name});
        break;
      }
      case 'p': keep(static_cast<std::uint64_t>(integer(line()))); break;
      case 'q': keep(number<std::uint8_t>()); break;
      case 'r': keep(number<std::uint32_t>()); break;
      case 0x94: keep(memo_.size()); break;
      case 'g': recall(static_cast<std::uint64_t>(integer(line()))); break;
      case 'h': recall(number<std::uint8_t>()); break;
      case 'j': recall(number<std::uint32_t>()); break;
      default: fail(fmt::format("the pickle has the instruction {:#04x}, which plain data does not need", code));
    }
    return true;
  }

  /// Adds items to a dict, or to an object that behaves like one (OrderedDict), whose items start at its third element.
  void set_items(const std::vector<PickleValue*>& items) {
    if (!stack_.empty() && stack_.back()->kind == Kind::object) return extend(Kind::object, "an object", items);
    extend(Kind::dict, "a dict to fill", items);
  }

  std::string_view all_;
  std::string where_;
  std::size_t at_ = 0;
  std::deque<PickleValue> values_;  // a deque, so that the elements do not move
  std::deque<std::string> texts_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
  PickleValue* root_ = nullptr;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& where)
    : reader_(std::make_unique<Reader>(bytes, where)) {}
Pickle::~Pickle() = default;

const PickleValue& Pickle::root() const { return *reader_->root(); }

std::span<const std::byte> Pickle::bytes_of(const PickleValue& value) {
  if (value.kind == Kind::bytes) return std::as_bytes(std::span(value.text));
  const bool encoded = value.kind == Kind::object && value.items[0]->text == "_codecs encode" &&
                       value.items[1]->kind == Kind::tuple && !value.items[1]->items.empty() &&
                       value.items[1]->items[0]->kind == Kind::text;
  if (!encoded) return {};
  std::string& latin = reader_->own({});
  const std::string_view text = value.items[1]->items[0]->text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      latin += text[i];
    } else if ((first & 0xFC) == 0xC0 && i + 1 < text.size()) {  // U+0080 to U+00FF take two bytes
      latin += static_cast<char>((first & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F));
    } else {
      return {};
    }
  }
  return std::as_bytes(std::span(latin));
}

}  // namespace pleiad::data
