// Layers that write their input to a file: csv_output and record_output.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

/// Appends to a file. If a batch is split over ranks, rank n > 0 writes to its own file, "path.n".
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  ~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const Pass& pass, const std::string& text) {
    const int part = pass.parts == nullptr ? 0 : pass.parts->index();
    const std::string path = part == 0 ? path_ : fmt::format("{}.{}", path_, part);
    if (file_ == nullptr) file_ = std::fopen(path.c_str(), "wb");
    if (file_ == nullptr)
      throw FileError(fmt::format("{}: cannot be opened for writing: {}", path, std::strerror(errno)));
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
      throw FileError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
    }
  }

 private:
  const std::string path_;
  std::FILE* file_ = nullptr;
};

/// Writes its input to the file and outputs each sample's index in it.
class Output : public Layer {
 public:
  explicit Output(const std::string& path) : file_(path) {
    if (path.empty()) throw InvalidArgument("path: expected a file; received none");
  }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    if (in.empty() || in.size() > 2)
      throw InvalidArgument(fmt::format("expected data, and labels or none; received {} inputs", in.size()));
    if (in[0].rank() < 1 || (in.size() == 2 && in[1].count() != in[0][0])) {
      throw InvalidArgument(fmt::format("expected (batch, ...), and one label per sample; received {}{}", in[0].text(),
                                        in.size() == 2 ? " and " + in[1].text() : ""));
    }
    return {{in[0][0]}};
  }
  [[nodiscard]] bool takes(std::size_t i, DType given, DType net) const override {
    return given == input_type(i, net) || given == DType::int32;
  }
  [[nodiscard]] DType output_type(std::size_t, DType) const override { return DType::int32; }
  [[nodiscard]] DType input_type(std::size_t i, DType net) const override { return i == 1 ? DType::int32 : net; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  void forward(Pass& pass) override {
    if (pass.placeholder) return;
    text_.clear();
    for (std::int64_t n = 0; n < pass.x[0].shape()[0]; ++n) {
      add(pass, n, text_);
      pass.y[0].values<std::int32_t>()[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(count_++);
    }
    file_.write(pass, text_);
  }
  void backward(Pass&) override {}

 protected:
  /// Appends sample n of the batch to `to` in the file's format.
  virtual void add(const Pass& pass, std::int64_t n, std::string& to) = 0;
  /// Returns the number of samples written so far.
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  OutputFile file_;
  std::int64_t count_ = 0;
  std::string text_;
};

/// Writes one line per sample, starting with its label if there is one.
class CsvOutput final : public Output {
 public:
  explicit CsvOutput(const CsvOutputOptions& options) : Output(options.path), separator_(options.separator) {}
  [[nodiscard]] std::string kind() const override { return "csv_output"; }

 protected:
  void add(const Pass& pass, std::int64_t n, std::string& to) override {
    const std::int64_t row = pass.x[0].count() / pass.x[0].shape()[0];
    if (pass.x.size() == 2) to += fmt::format("{}", pass.x[1].values<std::int32_t>()[static_cast<std::size_t>(n)]);
    for (std::int64_t i = 0; i < row; ++i) {
      if (i > 0 || pass.x.size() == 2) to += separator_;
      to += pass.x[0].dtype() == DType::float32
                ? fmt::format("{}", pass.x[0].values<float>()[static_cast<std::size_t>(n * row + i)])
                : fmt::format("{}", pass.x[0].at(n * row + i));
    }
    to += '\n';
  }

 private:
  const std::string separator_;
};

/// Writes SINGA's kvfile: {key length, key, value length, value}, with 64-bit little-endian lengths. The key is the
/// sample's index as %08d; the value is a RecordProto {shape = 1, label = 2, data = 4 (packed floats)}.
class RecordOutput final : public Output {
 public:
  explicit RecordOutput(const RecordOutputOptions& options) : Output(options.path) {}
  [[nodiscard]] std::string kind() const override { return "record_output"; }

 protected:
  void add(const Pass& pass, std::int64_t n, std::string& to) override {
    const Tensor& x = pass.x[0];
    const std::int64_t row = x.count() / x.shape()[0];
    std::string value;
    for (int axis = 1; axis < x.shape().rank(); ++axis) {
      value += '\x08';
      varint(static_cast<std::uint64_t>(x.shape()[axis]), value);
    }
    if (pass.x.size() == 2) {
      value += '\x10';  // a negative label takes all 64 bits
      varint(static_cast<std::uint64_t>(
                 static_cast<std::int64_t>(pass.x[1].values<std::int32_t>()[static_cast<std::size_t>(n)])),
             value);
    }
    value += '\x22';
    varint(static_cast<std::uint64_t>(4 * row), value);
    for (std::int64_t i = 0; i < row; ++i) {
      const auto number = static_cast<float>(x.at(n * row + i));
      value.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    const std::string key = fmt::format("{:08}", count());
    for (const std::string* part : {&key, static_cast<const std::string*>(&value)}) {
      const std::uint64_t length = part->size();
      to.append(reinterpret_cast<const char*>(&length), sizeof length);
      to += *part;
    }
  }

 private:
  static void varint(std::uint64_t number, std::string& to) {
    for (; number >= 0x80; number >>= 7) to += static_cast<char>(number | 0x80);
    to += static_cast<char>(number);
  }
};

const Fields<CsvOutputOptions>& csv_fields() {
  using O = CsvOutputOptions;
  static const Fields<O> all = {field("path", &O::path, "the file"),
                                field("separator", &O::separator, "text between values")};
  return all;
}
const Fields<RecordOutputOptions>& record_fields() {
  static const Fields<RecordOutputOptions> all = {field("path", &RecordOutputOptions::path, "the file")};
  return all;
}

}  // namespace

LayerPtr csv_output(const CsvOutputOptions& options) {
  return with_options(std::make_unique<CsvOutput>(options), csv_fields(), options);
}
LayerPtr record_output(const RecordOutputOptions& options) {
  return with_options(std::make_unique<RecordOutput>(options), record_fields(), options);
}
LayerPtr csv_output_from(const LayerFields& text) { return csv_output(read_fields(csv_fields(), text)); }
LayerPtr record_output_from(const LayerFields& text) { return record_output(read_fields(record_fields(), text)); }

}  // namespace pleiad::nn
