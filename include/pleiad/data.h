// Records from files and arrays, and a loader that delivers them in batches to a training loop.
//
//   auto store = pleiad::open_dataset({.name = "fashion-mnist", .part = "train"});
//   pleiad::Loader loader(std::move(store), {.batch = 100, .shuffle = true, .transform = {.scale = 1.0 / 255}});
//   while (auto batch = loader.next()) step(batch->floats(0), batch->ints(1));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/choice.h"

namespace pleiad {

/// Element types of stored records.
enum class FieldType : std::uint8_t { uint8, float32, float64, int32, int64 };

[[nodiscard]] PLEIAD_API std::size_t size_of(FieldType type);
[[nodiscard]] PLEIAD_API std::string_view name_of(FieldType type);

/// One part of every record: an image, a label. An image has the shape {channels, height, width}.
struct PLEIAD_API Field {
  std::string name;
  FieldType type = FieldType::float32;
  std::vector<std::int64_t> shape;  ///< shape in one record; empty for a single value

  /// The number of elements and of bytes in one record.
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::size_t bytes() const;
};

/// A rectangle of an image, the same in all channels.
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// A read-only collection of records with the same fields. Thread-safe. A damaged file is a FileError that names the
/// file and, if applicable, the record. A caller's mistake is an InvalidArgument.
///
/// To add your own store, derive from this class and implement `fetch`.
class PLEIAD_API Store {
 public:
  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Returns the name in messages: the file or files.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  /// Returns the index of a field. Throws an error that lists the known fields if there is none of this name.
  [[nodiscard]] std::size_t field(std::string_view name) const;

  /// Copies one field of the given records into `out`, in order.
  void read(std::size_t field, std::span<const std::int64_t> records, std::span<std::byte> out) const;
  /// The same for a rectangle of images: {channels, window.height, window.width} of each record. Reads only the rows of
  /// the rectangle from the file if the format allows it.
  void read_window(std::size_t field, std::span<const std::int64_t> records, const Window& window,
                   std::span<std::byte> out) const;

 protected:
  Store(std::string name, std::int64_t size, std::vector<Field> fields);
  /// Fills `out`, which has the right, nonzero size; the arguments have been checked. `window` is null for whole
  /// records. Several threads may call it at once.
  virtual void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
                     std::byte* out) const = 0;

 private:
  void check(std::size_t field, std::span<const std::int64_t> records, const Window* window, std::size_t room) const;

  std::string name_;
  std::int64_t size_;
  std::vector<Field> fields_;
};

/// Which files to read, and how. Each kind of store uses the options that apply to it.
struct StoreOptions {
  std::string kind;                ///< one of store_kinds()
  std::vector<std::string> paths;  ///< idx: images, labels; others: one after another. Plain or gzipped
  std::int64_t classes = 0;        ///< labels must be less than this; 0: no limit (cifar10: always 10)
  /// shape of a record; empty: that of the file, or a vector. images: pictures are scaled to it
  std::vector<std::int64_t> shape = {};
  bool label = true;                       ///< csv, textfile: the first column is a label; kvfile, lmdb: read labels
  bool header = false;                     ///< csv: the first line contains column names
  char separator = ',';                    ///< csv, textfile
  bool sparse = false;                     ///< libsvm: produce fields "index" and "value" instead of "data"
  std::vector<std::string> datasets = {};  ///< hdf5: names of "data" and "label" in the file; empty: these names
  bool encoded = false;               ///< kvfile, lmdb: the pixels of a record are a PNG or JPEG, scaled to `shape`
  std::optional<Window> window = {};  ///< read only this rectangle of every image, which replaces the image
};

/// Opens a store over files with the field "data" and, if there are labels, "label" (int32).
[[nodiscard]] PLEIAD_API std::unique_ptr<Store> open_store(const StoreOptions& options);
[[nodiscard]] PLEIAD_API std::vector<std::string> store_kinds();

/// Specifies the records to write and their destination.
struct WriterOptions {
  std::string kind;                           ///< one of writable_kinds()
  std::vector<std::string> paths;             ///< idx: images, labels; others: one path
  Field data = {};                            ///< type and shape of a record; each kind supports some of them
  bool label = true;                          ///< records have labels
  char separator = ',';                       ///< csv, textfile
  int key_digits = 8;                         ///< kvfile, lmdb: digits of the record's number, which is its key
  std::vector<std::string> class_names = {};  ///< images: folder names by label; empty: the label's number
};

/// Writes records into a store. The store appears complete after `commit`; without it, the previous content stays. A
/// write that fails is a FileError. Not thread-safe: one thread at a time.
class PLEIAD_API StoreWriter {
 public:
  virtual ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  [[nodiscard]] const WriterOptions& options() const { return options_; }
  /// Returns the number of records written so far.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Writes one record: the bytes of options().data, and the label if records have labels.
  void write(std::span<const std::byte> data, std::int32_t label = 0);
  /// Publishes the store. Call it once.
  void commit();

 protected:
  explicit StoreWriter(WriterOptions options);
  /// Writes one record; the arguments have been checked.
  virtual void put(std::span<const std::byte> data, std::int32_t label) = 0;
  virtual void finish() = 0;

 private:
  WriterOptions options_;
  std::int64_t size_ = 0;
  bool done_ = false;
};

[[nodiscard]] PLEIAD_API std::unique_ptr<StoreWriter> create_store(const WriterOptions& options);
[[nodiscard]] PLEIAD_API std::vector<std::string> writable_kinds();

/// Writes all records of `store` and commits. Converts elements to the writer's type; an integer that does not fit, or
/// a fraction where integers are expected, is an InvalidArgument that names the record. Calls `progress` with the
/// number of records done; if it returns false, nothing is committed, and this function returns false.
PLEIAD_API bool copy_store(const Store& store, StoreWriter& to,
                           const std::function<bool(std::int64_t done)>& progress = {});

/// The records to train on, or those to test with.
enum class DatasetPart : std::uint8_t { test, train };
template <>
struct ChoiceNames<DatasetPart> {
  static constexpr std::string_view family = "part of a data set";
  static constexpr std::string_view names[] = {"test", "train"};
};

/// A well-known data set that is installed on this machine.
struct DatasetOptions {
  std::string name;  ///< mnist | fashion-mnist | cifar10
  Choice<DatasetPart> part = DatasetPart::train;
  std::string folder = {};            ///< empty: $PLEIAD_DATA/NAME, then the folders of Debian's packages
  std::optional<Window> window = {};  ///< same as in StoreOptions
};

/// Opens a data set without downloading anything. If it is not found, the FileError says where it was searched for and
/// how to get it.
[[nodiscard]] PLEIAD_API std::unique_ptr<Store> open_dataset(const DatasetOptions& options);
[[nodiscard]] PLEIAD_API std::vector<std::string> dataset_names();

/// A field in memory, record after record.
struct ArrayField {
  Field field;
  std::span<const std::byte> bytes;
};

/// Opens a store over memory, which the caller must keep unchanged for the store's lifetime. All fields must have the
/// same number of records.
[[nodiscard]] PLEIAD_API std::unique_ptr<Store> open_arrays(std::vector<ArrayField> fields,
                                                            std::string name = "arrays");

/// Mean and standard deviation over all records, for each pixel or for each channel. A constant value has deviation 1.
/// Sums of bytes are exact; others are computed in double precision in the order of the records.
struct Statistics {
  std::vector<float> mean;
  std::vector<float> deviation;
};
[[nodiscard]] PLEIAD_API Statistics statistics_of(const Store& store, std::size_t field, bool per_pixel);

/// Generates images of ten kinds of shapes in random colours, positions and sizes on a random background, in the
/// format, sizes and file names of CIFAR-10 (data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt).
/// The same options give the same bytes on every machine.
struct GeneratorOptions {
  std::int64_t train = 10000;
  std::int64_t test = 2000;
  std::uint64_t seed = 1;
};
PLEIAD_API void generate_cifar10(const std::string& folder, const GeneratorOptions& options = {});

/// How a stored image x is transformed: crop, mirror, then (x - mean) * (scale / deviation) as float32. The random crop
/// and mirror of a record depend only on seed, epoch and record.
struct TransformOptions {
  std::vector<float> mean = {};       ///< empty, one value for all, one per channel, or one per stored pixel
  std::vector<float> deviation = {};  ///< same forms as mean
  double scale = 1;
  std::int64_t pad = 0;             ///< zeros to add around the result before the crop
  std::int64_t crop_height = 0;     ///< 0: no crop
  std::int64_t crop_width = 0;      ///< 0: no crop
  bool random_crop = false;         ///< crop at a random position; otherwise at the centre
  bool mirror = false;              ///< mirror images left to right with probability 1/2
  std::optional<Window> tile = {};  ///< keep only this rectangle of every result: a rank's tile of a split image
};

/// The treatment of the last records of an epoch if they do not fill a batch.
enum class LastBatch : std::uint8_t {
  wrap,     ///< fill it up with the next epoch's first records; only the very last batch is short
  shorter,  ///< deliver the remaining records as a shorter batch
  drop      ///< skip the remaining records
};

/// The order, size and preparation of a loader's batches.
struct LoaderOptions {
  std::int64_t batch = 100;  ///< batch size, over all ranks
  bool shuffle = false;      ///< use a new random order for every epoch
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;  ///< number of epochs; 0: unlimited
  LastBatch last = LastBatch::wrap;
  int rank = 0;  ///< index of this rank among `ranks`; the loader delivers its shard of every batch
  int ranks = 1;
  int threads = 1;        ///< threads that read and transform; 0: next() does it in the caller's thread
  int depth = 4;          ///< number of buffers: batches that are ready, in preparation or held by the caller
  double timeout = 1800;  ///< seconds that next() waits for a batch before it fails
  std::string transformed = "data";  ///< field that `transform` applies to, which becomes float32; empty: none
  TransformOptions transform = {};
};

/// A position of a loader: before record number `offset` in the order of the epoch. A loader with another number of
/// ranks, threads or batch size can restore it; seed and number of records must be the same.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t offset = 0;
  std::uint64_t seed = 0;
  std::int64_t records = 0;
  bool operator==(const LoaderPosition&) const = default;
};

namespace data {
class LoaderCore;
struct Slot;
}  // namespace data

/// This rank's shard of one batch, in a buffer that returns to the loader when this object is destroyed. Each field is
/// aligned to 64 bytes. A batch must not outlive its loader.
class PLEIAD_API Batch {
 public:
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  ~Batch();

  /// size() counts the records of this rank, global_size() those of all ranks.
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] std::int64_t global_size() const;
  /// Returns the epoch of the batch's first record.
  [[nodiscard]] std::int64_t epoch() const;
  [[nodiscard]] std::span<const std::int64_t> records() const;
  /// Return the values of a field, record after record. The type must be that of the field (see Loader::fields).
  [[nodiscard]] std::span<const float> floats(std::size_t field) const;
  [[nodiscard]] std::span<const std::int32_t> ints(std::size_t field) const;
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t field) const;

 private:
  friend class data::LoaderCore;
  Batch(data::LoaderCore* loader, data::Slot* slot) : loader_(loader), slot_(slot) {}

  data::LoaderCore* loader_;
  data::Slot* slot_;
};

/// Delivers batches in order, prepared ahead of time by its own threads.
///
/// Batch k of an epoch is the same list of records for every number of ranks: rank r delivers the r-th shard of it, and
/// the concatenated shards are the batch. A batch at a given position is bit-identical whatever the number of ranks and
/// threads, and after a restore.
///
/// Not thread-safe: one thread at a time. If preparing a batch fails, the next() that would have returned it throws the
/// error, and so do later calls until a restore; earlier batches are delivered.
class PLEIAD_API Loader {
 public:
  Loader(std::shared_ptr<const Store> store, LoaderOptions options = {});
  /// Stops the threads; each completes at most its current batch.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Returns the fields as they appear in batches.
  [[nodiscard]] const std::vector<Field>& fields() const;
  /// Returns the number of batches in an epoch; with LastBatch::wrap, the maximum number of batches that begin in it.
  [[nodiscard]] std::int64_t batches_per_epoch() const;
  /// Returns the next batch, or nothing after the last epoch.
  [[nodiscard]] std::optional<Batch> next();
  /// Returns the position after the last batch that next() returned.
  [[nodiscard]] LoaderPosition position() const;
  /// Continues from a position. The caller must not hold any batch.
  void restore(const LoaderPosition& position);

 private:
  std::unique_ptr<data::LoaderCore> core_;
};

}  // namespace pleiad
