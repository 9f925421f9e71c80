// The kinds of files of pairs. pairs.cc is the one list of them.
#pragma once

#include <memory>
#include <string>

#include "pleiad/records.h"

namespace pleiad::data {

struct PairKind {
  std::string_view name;
  std::unique_ptr<Pairs> (*open)(const std::string& path);
  std::unique_ptr<PairWriter> (*create)(const std::string& path);
};

std::unique_ptr<Pairs> open_kvfile(const std::string& path);
std::unique_ptr<PairWriter> create_kvfile(const std::string& path);
std::unique_ptr<Pairs> open_lmdb(const std::string& path);
std::unique_ptr<PairWriter> create_lmdb(const std::string& path);
std::unique_ptr<Pairs> open_textfile(const std::string& path);
std::unique_ptr<PairWriter> create_textfile(const std::string& path);

}  // namespace pleiad::data
