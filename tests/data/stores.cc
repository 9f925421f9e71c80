#include "tests/data/stores.h"

#include <lmdb.h>
#include <zlib.h>

#include <cstring>

namespace pleiad::test {

std::string images(std::int64_t records, std::int64_t elements) {
  std::string text;
  for (std::int64_t r = 0; r < records; ++r) {
    for (std::int64_t i = 0; i < elements; ++i) text += static_cast<char>(element(r, i));
  }
  return text;
}

std::string labels(std::int64_t records) {
  std::string text;
  for (std::int64_t r = 0; r < records; ++r) text += static_cast<char>(label(r));
  return text;
}

std::string big_endian(std::uint32_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xFF);
  return text;
}

std::string idx_header(const std::vector<std::uint32_t>& shape) {
  std::string text = {0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint32_t extent : shape) text += big_endian(extent);
  return text;
}

std::string gzipped(const std::string& plain, const Folder& folder) {
  const auto path = folder / "for_gzip";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, plain.data(), static_cast<unsigned>(plain.size()));
  gzclose(file);
  std::string packed = slurp(path);
  std::filesystem::remove(path);
  return packed;
}

namespace {

StoreOptions write_idx(const Folder& folder, bool gzip) {
  std::string pictures = idx_header({kRecords, 5, 6}) + images(kRecords, 30);
  std::string classes = idx_header({kRecords}) + labels(kRecords);
  if (gzip) {
    pictures = gzipped(pictures, folder);
    classes = gzipped(classes, folder);
  }
  spit(folder / "images", pictures);
  spit(folder / "labels", classes);
  return {.kind = "idx", .paths = {folder / "images", folder / "labels"}, .classes = 10};
}

StoreOptions write_cifar10(const Folder& folder) {
  const auto file = [&](const std::string& name, std::int64_t first, std::int64_t last) {
    std::string text;
    for (std::int64_t r = first; r < last; ++r) {
      text += static_cast<char>(label(r));
      for (std::int64_t i = 0; i < 3072; ++i) text += static_cast<char>(element(r, i));
    }
    spit(folder / name, text);
  };
  file("a.bin", 0, 4);
  file("b.bin", 4, kRecords);
  return {.kind = "cifar10", .paths = {folder / "a.bin", folder / "b.bin"}};
}

StoreOptions write_csv(const Folder& folder) {
  std::string text = "label,and,its,pixels\r\n";
  for (std::int64_t r = 0; r < kRecords; ++r) {
    text += std::to_string(label(r));
    for (std::int64_t i = 0; i < 24; ++i) text += (i % 5 == 0 ? ", +" : ",") + std::to_string(element(r, i)) + ".0";
    text += r % 2 == 0 ? "\r\n" : "\n\n";
  }
  spit(folder / "a.csv", text);
  return {.kind = "csv", .paths = {folder / "a.csv"}, .classes = 10, .shape = {2, 3, 4}, .header = true};
}

const Field kSmall{.name = "data", .type = FieldType::uint8, .shape = {2, 3, 4}};

StoreOptions write_textfile(const Folder& folder) {
  std::string text;
  for (std::int64_t r = 0; r < kRecords; ++r) {
    text += std::to_string(label(r));
    for (std::int64_t i = 0; i < 24; ++i) text += "," + std::to_string(element(r, i));
    text += "\n";
  }
  spit(folder / "a.txt", text);
  return {.kind = "textfile", .paths = {folder / "a.txt"}, .classes = 10, .shape = {2, 3, 4}};
}

StoreOptions write_kvfile(const Folder& folder, bool pixels) {
  const auto file = [&](const std::string& name, std::int64_t first, std::int64_t last) {
    std::string text;
    for (std::int64_t r = first; r < last; ++r) text += pair("0000000" + std::to_string(r), record(r, pixels));
    spit(folder / name, text);
  };
  file("a.bin", 0, 3);
  file("b.bin", 3, kRecords);
  return {.kind = "kvfile", .paths = {folder / "a.bin", folder / "b.bin"}, .classes = 10};
}

StoreOptions write_libsvm(const Folder& folder) {
  std::string text = "# a comment\n";
  for (std::int64_t r = 0; r < kRecords; ++r) {
    text += std::to_string(label(r));
    for (std::int64_t i = 0; i < 24; ++i) {
      if (element(r, i) != 0) text += " " + std::to_string(i + 1) + ":" + std::to_string(element(r, i));
    }
    text += r % 2 == 0 ? " # why not\r\n" : "\n\n";
  }
  spit(folder / "a.svm", text);
  return {.kind = "libsvm", .paths = {folder / "a.svm"}, .classes = 10, .shape = {2, 3, 4}};
}

/// Writes with LMDB's own library. Some values are longer than a page.
StoreOptions write_lmdb(const Folder& folder, bool pixels) {
  MDB_env* env = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  const std::string path = folder / "data.mdb";
  mdb_env_create(&env);
  mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0666);
  mdb_txn_begin(env, nullptr, 0, &transaction);
  mdb_dbi_open(transaction, nullptr, 0, &database);
  for (std::int64_t r = 0; r < kRecords; ++r) {
    std::string name = "0000000" + std::to_string(r);
    // An unknown field makes every second record long.
    std::string message = record(r, pixels) + (r % 2 == 0 ? "\x7A\xA0\x1F" + std::string(4000, 'x') : "");
    MDB_val key{name.size(), name.data()};
    MDB_val value{message.size(), message.data()};
    mdb_put(transaction, database, &key, &value, 0);
  }
  mdb_txn_commit(transaction);
  mdb_env_close(env);
  return {.kind = "lmdb", .paths = {path}, .classes = 10};
}

/// Writes with our own writer. tests/cli/test_convert.py compares it with other readers and writers.
StoreOptions write_through(const std::string& kind, const Folder& folder, const Field& data) {
  const auto writer = create_store({.kind = kind, .paths = {folder / "a"}, .data = data});
  std::vector<std::byte> bytes(data.bytes());
  for (std::int64_t r = 0; r < kRecords; ++r) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(element(r, static_cast<std::int64_t>(i)));
    }
    writer->write(bytes, label(r));
  }
  writer->commit();
  return {.kind = kind, .paths = {folder / "a"}, .classes = 10};
}

template <std::size_t N>
std::string raw(const char (&text)[N]) {
  return {text, N - 1};
}

/// Writes a dict with a NumPy array as Python 2 pickles it.
std::string pickled_batch(std::int64_t first, std::int64_t last) {
  const std::uint32_t bytes = static_cast<std::uint32_t>(last - first) * 3072;
  std::string text = raw("\x80\x02}q\x01(U\x04") + "dataq\x02" + "cnumpy.core.multiarray\n_reconstruct\nq\x03";
  text += "cnumpy\nndarray\nq\x04" + raw("K\x00\x85q\x05U\x01") + raw("bq\x06\x87q\x07Rq\x08(K\x01K");
  text += static_cast<char>(last - first) + raw("M\x00\x0C\x86q\x09") + "cnumpy\ndtype\nq\x0AU\x02u1";
  text += raw("K\x00K\x01\x87q\x0BRq\x0C(K\x03U\x01|NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\x00tb\x89T");
  text.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  for (std::int64_t r = first; r < last; ++r) {
    for (std::int64_t i = 0; i < 3072; ++i) text += static_cast<char>(element(r, i));
  }
  text += raw("tbU\x06labelsq\x0D]q\x0E(");
  for (std::int64_t r = first; r < last; ++r) text += {'K', static_cast<char>(label(r))};
  return text + raw("eU\x0B") + "batch_labelq\x0FU\x03oneu.";
}

StoreOptions write_cifar10_python(const Folder& folder) {
  spit(folder / "data_batch_1", pickled_batch(0, 4));
  spit(folder / "data_batch_2", pickled_batch(4, kRecords));
  return {.kind = "cifar10_python", .paths = {folder / "data_batch_1", folder / "data_batch_2"}};
}

}  // namespace

std::string pair(const std::string& key, const std::string& value) {
  std::string text;
  for (const std::string* part : {&key, &value}) {
    const std::uint64_t length = part->size();
    text.append(reinterpret_cast<const char*>(&length), sizeof length);
    text += *part;
  }
  return text;
}

std::string record(std::int64_t r, bool pixels) {
  std::string message = {0x08, 2, 0x08, 3, 0x08, 4, 0x10, static_cast<char>(label(r))};
  if (pixels) {
    message += {0x1A, 24};
    for (std::int64_t i = 0; i < 24; ++i) message += static_cast<char>(element(r, i));
  } else {
    message += {0x22, 96};
    for (std::int64_t i = 0; i < 24; ++i) {
      const auto value = static_cast<float>(element(r, i));
      message.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return message;
}

std::vector<StoreCase> store_cases() {
  return {
      {"Idx", [](const Folder& folder) { return write_idx(folder, false); }},
      {"IdxGzip", [](const Folder& folder) { return write_idx(folder, true); }},
      {"Cifar10", write_cifar10},
      {"Csv", write_csv},
      {"TextFile", write_textfile},
      {"KvFile", [](const Folder& folder) { return write_kvfile(folder, true); }},
      {"KvFileOfFloats", [](const Folder& folder) { return write_kvfile(folder, false); }},
      {"Libsvm", write_libsvm},
      {"Lmdb", [](const Folder& folder) { return write_lmdb(folder, true); }},
      {"LmdbOfFloats", [](const Folder& folder) { return write_lmdb(folder, false); }},
      {"Hdf5", [](const Folder& folder) { return write_through("hdf5", folder, kSmall); }, 150},
      {"Images",
       [](const Folder& folder) {
         return write_through("images", folder, {.name = "data", .type = FieldType::uint8, .shape = {3, 5, 6}});
       },
       60},
      {"Cifar10Python", write_cifar10_python},
  };
}

namespace {

std::vector<double> as_numbers(const std::vector<std::byte>& bytes, FieldType type) {
  std::vector<double> result;
  const auto take = [&]<class T>(T value) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      std::memcpy(&value, bytes.data() + at, sizeof value);
      result.push_back(static_cast<double>(value));
    }
  };
  if (type == FieldType::uint8) take(std::uint8_t{});
  if (type == FieldType::float32) take(float{});
  if (type == FieldType::int32) take(std::int32_t{});
  return result;
}

}  // namespace

std::vector<double> numbers(const Store& store, std::size_t field, const std::vector<std::int64_t>& records) {
  std::vector<std::byte> bytes(records.size() * store.fields()[field].bytes());
  store.read(field, records, bytes);
  return as_numbers(bytes, store.fields()[field].type);
}

std::vector<double> numbers(const Store& store, std::size_t field, const std::vector<std::int64_t>& records,
                            const Window& window) {
  const Field& wanted = store.fields()[field];
  std::vector<std::byte> bytes(records.size() * size_of(wanted.type) *
                               static_cast<std::size_t>(wanted.shape.at(0) * window.height * window.width));
  store.read_window(field, records, window, bytes);
  return as_numbers(bytes, wanted.type);
}

}  // namespace pleiad::test
