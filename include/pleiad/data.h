// Records from files and arrays, and a loader that brings batches of them to a training loop.
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

namespace pleiad {

/// Element types of stored records.
enum class FieldType : std::uint8_t { uint8, float32, float64, int32, int64 };

[[nodiscard]] PLEIAD_API std::size_t size_of(FieldType type);
[[nodiscard]] PLEIAD_API std::string_view name_of(FieldType type);

/// One part of every record: an image, a label. An image has the shape {channels, height, width}.
struct PLEIAD_API Field {
  std::string name;
  FieldType type = FieldType::float32;
  std::vector<std::int64_t> shape;  ///< of one record; empty for a single number

  /// Elements, and bytes, of one record.
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

/// Records with the same fields. Any thread may read at any time. What a file gets wrong is a FileError that names the
/// file and, where it is about one, the record; what the caller gets wrong an InvalidArgument.
///
/// A store of one's own derives from this and implements `fetch`.
class PLEIAD_API Store {
 public:
  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// What messages call it: its file or files.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  /// The index of a field; names the known ones if this is none.
  [[nodiscard]] std::size_t field(std::string_view name) const;

  /// Copies one field of the named records into `out`, record after record.
  void read(std::size_t field, std::span<const std::int64_t> records, std::span<std::byte> out) const;
  /// The same for a rectangle of images: of each record {channels, window.height, window.width}. No more of the file is
  /// read than the rectangle's rows, where the format allows.
  void read_window(std::size_t field, std::span<const std::int64_t> records, const Window& window,
                   std::span<std::byte> out) const;

 protected:
  Store(std::string name, std::int64_t size, std::vector<Field> fields);
  /// Fills `out`, which has the right size, more than 0; the arguments are checked. `window` is null for whole records.
  /// Called by several threads at once.
  virtual void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
                     std::byte* out) const = 0;

 private:
  void check(std::size_t field, std::span<const std::int64_t> records, const Window* window, std::size_t room) const;

  std::string name_;
  std::int64_t size_;
  std::vector<Field> fields_;
};

/// Which files, and how to read them. Every kind of store looks at what concerns it.
struct StoreOptions {
  std::string kind;                      ///< one of store_kinds()
  std::vector<std::string> paths;        ///< idx: images, labels; others: one after another. Plain or gzipped
  std::int64_t classes = 0;              ///< labels must be less; 0: any (cifar10: always 10)
  std::vector<std::int64_t> shape = {};  ///< of a record; empty: as the file says, or a vector. images: scaled to it
  bool label = true;                     ///< csv, textfile: the first column is a label; kvfile, lmdb: labels are read
  bool header = false;                   ///< csv: the first line has names
  char separator = ',';                  ///< csv, textfile
  bool sparse = false;                   ///< libsvm: fields "index" and "value" in place of "data"
  std::vector<std::string> datasets = {};  ///< hdf5: names of "data" and "label" in the file; empty: these
  bool encoded = false;                    ///< kvfile, lmdb: a record's pixels are a PNG or JPEG, scaled to `shape`
  std::optional<Window> window = {};       ///< keep only this rectangle of every image; it is then the image
};

/// A store over files: fields "data" and, where there are labels, "label" (int32).
[[nodiscard]] PLEIAD_API std::unique_ptr<Store> open_store(const StoreOptions& options);
[[nodiscard]] PLEIAD_API std::vector<std::string> store_kinds();

/// What is to be written, and where to.
struct WriterOptions {
  std::string kind;                           ///< one of writable_kinds()
  std::vector<std::string> paths;             ///< idx: images, labels; others: one
  Field data = {};                            ///< type and shape of a record; the kind says which it can hold
  bool label = true;                          ///< records have labels
  char separator = ',';                       ///< csv, textfile
  int key_digits = 8;                         ///< kvfile, lmdb: of a record's number, which is its key
  std::vector<std::string> class_names = {};  ///< images: folders by label; empty: the label's number
};

/// Records on their way into a store, which is there in whole after `commit`, and as it was without. What a disk
/// refuses is a FileError. One thread at a time.
class PLEIAD_API StoreWriter {
 public:
  virtual ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  [[nodiscard]] const WriterOptions& options() const { return options_; }
  /// Records so far.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// The bytes of options().data, and the label where there are labels.
  void write(std::span<const std::byte> data, std::int32_t label = 0);
  /// Once.
  void commit();

 protected:
  explicit StoreWriter(WriterOptions options);
  /// The arguments are checked.
  virtual void put(std::span<const std::byte> data, std::int32_t label) = 0;
  virtual void finish() = 0;

 private:
  WriterOptions options_;
  std::int64_t size_ = 0;
  bool done_ = false;
};

[[nodiscard]] PLEIAD_API std::unique_ptr<StoreWriter> create_store(const WriterOptions& options);
[[nodiscard]] PLEIAD_API std::vector<std::string> writable_kinds();

/// Writes all records of `store` and commits. Elements become those of the writer; whole numbers that do not fit, and
/// fractions where whole numbers are wanted, are InvalidArguments that name the record. `progress` hears how many are
/// done, and ends it by false: then nothing is committed, and this returns false.
PLEIAD_API bool copy_store(const Store& store, StoreWriter& to,
                           const std::function<bool(std::int64_t done)>& progress = {});

/// A data set that is known by its name, where it lies on this machine.
struct DatasetOptions {
  std::string name;                   ///< mnist | fashion-mnist | cifar10
  std::string part = "train";         ///< train | test
  std::string folder = {};            ///< empty: $PLEIAD_DATA/NAME, then where Debian's packages put it
  std::optional<Window> window = {};  ///< as in StoreOptions
};

/// Nothing is downloaded: a FileError says where it looked and what brings the data there.
[[nodiscard]] PLEIAD_API std::unique_ptr<Store> open_dataset(const DatasetOptions& options);
[[nodiscard]] PLEIAD_API std::vector<std::string> dataset_names();

/// Numbers in memory, record after record.
struct ArrayField {
  Field field;
  std::span<const std::byte> bytes;
};

/// A store over memory that the caller keeps as it is for the store's life. All fields have the same number of records.
[[nodiscard]] PLEIAD_API std::unique_ptr<Store> open_arrays(std::vector<ArrayField> fields,
                                                            std::string name = "arrays");

/// Mean and standard deviation over all records: one a pixel, or one a channel. What does not vary has deviation 1.
/// Sums of bytes are exact, others in double precision in the order of the records.
struct Statistics {
  std::vector<float> mean;
  std::vector<float> deviation;
};
[[nodiscard]] PLEIAD_API Statistics statistics_of(const Store& store, std::size_t field, bool per_pixel);

/// Pictures of ten kinds of shapes in random colours, places and sizes over a random ground, in the format, sizes and
/// file names of CIFAR-10 (data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt). The same options
/// give the same bytes on every machine.
struct GeneratorOptions {
  std::int64_t train = 10000;
  std::int64_t test = 2000;
  std::uint64_t seed = 1;
};
PLEIAD_API void generate_cifar10(const std::string& folder, const GeneratorOptions& options = {});

/// What becomes of a stored image x: crop, mirror, then (x - mean) * (scale / deviation) as float32. The two draws of a
/// record are functions of seed, epoch and record alone.
struct TransformOptions {
  std::vector<float> mean = {};       ///< none, one for all, one a channel, or one a stored pixel
  std::vector<float> deviation = {};  ///< likewise
  double scale = 1;
  std::int64_t pad = 0;             ///< zeros put around the result before the crop
  std::int64_t crop_height = 0;     ///< 0: no crop
  std::int64_t crop_width = 0;      ///< 0: no crop
  bool random_crop = false;         ///< a random place; otherwise the centre
  bool mirror = false;              ///< every other image, by chance, left to right
  std::optional<Window> tile = {};  ///< only this rectangle of every result: a rank's part of a split image
};

enum class LastBatch : std::uint8_t {
  wrap,     ///< filled up with the next epoch's first records; the very last one is short
  shorter,  ///< as many as are left
  drop      ///< left out
};

struct LoaderOptions {
  std::int64_t batch = 100;  ///< records a step, of all ranks together
  bool shuffle = false;      ///< another order every epoch
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;  ///< 0: without end
  LastBatch last = LastBatch::wrap;
  int rank = 0;  ///< of `ranks`: this loader brings its share of every batch
  int ranks = 1;
  int threads = 1;                   ///< that read and transform; 0: the caller's, in next()
  int depth = 4;                     ///< buffers: batches ready, in work or held by the caller
  double timeout = 1800;             ///< seconds that next() waits for a batch
  std::string transformed = "data";  ///< the field that `transform` is for; it becomes float32. Empty: none
  TransformOptions transform = {};
};

/// Where a loader stands: before the record number `offset` of the epoch's order. Number of ranks, threads and batch
/// may differ where it is restored; seed and number of records may not.
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

/// This rank's share of one batch, in a buffer that returns to the loader when this goes away. Each field begins at a
/// multiple of 64 bytes. Must not outlive its loader.
class PLEIAD_API Batch {
 public:
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  ~Batch();

  /// Records of this rank, and of all ranks.
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] std::int64_t global_size() const;
  /// The epoch of the batch's first record.
  [[nodiscard]] std::int64_t epoch() const;
  [[nodiscard]] std::span<const std::int64_t> records() const;
  /// A field's numbers, record after record. It must have that type (Loader::fields says which).
  [[nodiscard]] std::span<const float> floats(std::size_t field) const;
  [[nodiscard]] std::span<const std::int32_t> ints(std::size_t field) const;
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t field) const;

 private:
  friend class data::LoaderCore;
  Batch(data::LoaderCore* loader, data::Slot* slot) : loader_(loader), slot_(slot) {}

  data::LoaderCore* loader_;
  data::Slot* slot_;
};

/// Brings batches in order, made ready ahead of time by threads of its own.
///
/// Batch k of an epoch is the same list of records for every number of ranks: rank r brings the r-th share of it, so
/// that the ranks' shares one after another are the batch. With its position, a batch has the same bits whatever the
/// number of ranks and threads, and after a restore.
///
/// One thread at a time may call. An error while a batch is made is thrown by the next() that would have returned it,
/// and again by those that follow, until a restore; batches before it are delivered.
class PLEIAD_API Loader {
 public:
  Loader(std::shared_ptr<const Store> store, LoaderOptions options = {});
  /// Ends the threads; each at most completes the batch it is at.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Fields as batches have them.
  [[nodiscard]] const std::vector<Field>& fields() const;
  /// Batches that an epoch has; with LastBatch::wrap those that begin in it, at most.
  [[nodiscard]] std::int64_t batches_per_epoch() const;
  /// The next batch, or nothing after the last epoch.
  [[nodiscard]] std::optional<Batch> next();
  /// After the last batch that next() returned.
  [[nodiscard]] LoaderPosition position() const;
  /// Goes on from there. No batch may be held.
  void restore(const LoaderPosition& position);

 private:
  std::unique_ptr<data::LoaderCore> core_;
};

}  // namespace pleiad
