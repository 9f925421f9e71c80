// Saves the tensors of several ranks to a folder, completely or not at all, and reads them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "file/saved_set.h"
#include "plan/communicator.h"
#include "plan/layout.h"

namespace pleiad {

/// A named tensor. `part` says which part of the whole array it is; null means all of it, identical on every rank.
struct CheckpointTensor {
  std::string name;
  Tensor tensor;
  const ParameterPart* part = nullptr;
};

/// Collective. Throws FileError on every rank if any rank fails; the previous contents of the folder then remain
/// complete.
void write_checkpoint(const std::filesystem::path& folder, const std::vector<CheckpointTensor>& tensors,
                      const Metadata& metadata, Communicator& comm);

/// A checkpoint opened for reading. All members throw a FileError that names the file.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);
  /// Returns a value of the metadata. Throws if the key is missing.
  [[nodiscard]] const std::string& at(const std::string& key) const;
  /// Returns a copy of the part that `like` describes. Throws a FileError with the expected and the found type and
  /// shape if they differ.
  [[nodiscard]] Tensor read(const CheckpointTensor& like) const;
  [[nodiscard]] bool has(const std::string& name) const { return set_.has(name); }
  void verify() const { set_.verify(); }

 private:
  std::filesystem::path folder_;
  SavedSet set_;
};

/// Runs `work` and returns the text of the exception that it throws, or an empty text.
[[nodiscard]] std::string error_text_of(FunctionRef<void()> work);
/// Collective. Throws FileError on all ranks if `mine` is not empty on any of them. An empty text means success.
void throw_on_all(Communicator& comm, const std::string& mine);

}  // namespace pleiad
