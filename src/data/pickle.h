// Python's pickles, read as data: what they would call is named, never called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pleiad::data {

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    bytes,
    text,
    list,
    tuple,
    dict,
    global,
    object,
    other
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  ///< booleans too
  double real = 0;
  std::string_view text;  ///< bytes and text; of a global "module name"
  std::vector<PickleValue*>
      items;  ///< of a list or tuple; a dict's keys and values in turn; an object's callable, arguments
  PickleValue* state = nullptr;  ///< what an object was to be built of

  /// A dict's value for a key of text or bytes; null where there is none.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;
};

/// A pickle of protocol 0 to 5. Nothing in it is executed: a global is its name, and a call is an object that says what
/// would have been called on what. A FileError that begins with `where` and says at which byte, for what is no pickle
/// or does what data has no need of.
class Pickle {
 public:
  /// `bytes` outlives this.
  Pickle(std::span<const std::byte> bytes, const std::string& where);
  ~Pickle();
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  [[nodiscard]] const PickleValue& root() const;
  /// Text that `_codecs.encode(text, 'latin1')` would make bytes of, as Python 3 writes bytes into old protocols; or
  /// bytes as they are. Nothing where `value` is neither.
  [[nodiscard]] std::span<const std::byte> bytes_of(const PickleValue& value);

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace pleiad::data
