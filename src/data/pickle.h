// Reads Python pickles as data. Never calls what a pickle refers to.
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
  std::int64_t integer = 0;  ///< also the value of booleans
  double real = 0;
  std::string_view text;  ///< of bytes and text; of a global "module name"
  /// elements of a list or tuple; alternating keys and values of a dict; callable and arguments of an object
  std::vector<PickleValue*> items;
  PickleValue* state = nullptr;  ///< argument of an object's BUILD instruction

  /// Returns a dict's value for a key of text or bytes, or null if there is none.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;
};

/// A pickle of protocol 0 to 5. Executes nothing: a global is represented by its name, and a call by an object with the
/// callable and the arguments. Throws a FileError that begins with `where` and gives the byte offset if the data is not
/// a pickle or uses instructions that plain data does not need.
class Pickle {
 public:
  /// `bytes` must outlive this object.
  Pickle(std::span<const std::byte> bytes, const std::string& where);
  ~Pickle();
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  [[nodiscard]] const PickleValue& root() const;
  /// Returns a value's bytes: bytes themselves, or the text argument of `_codecs.encode(text, 'latin1')`, with which
  /// Python 3 writes bytes in old protocols. Empty if `value` is neither.
  [[nodiscard]] std::span<const std::byte> bytes_of(const PickleValue& value);

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace pleiad::data
