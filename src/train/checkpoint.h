// Tensors of several ranks in a folder, written whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "file/saved_set.h"
#include "plan/crew.h"
#include "plan/layout.h"

namespace pleiad {

/// A tensor under its name; `part` tells which rectangle of the whole it is, null: all of it, on every rank the same.
struct CheckpointTensor {
  std::string name;
  Tensor tensor;
  const HeldPart* part = nullptr;
};

/// Collective: a FileError on every rank where any of them fails; what the folder held before is then whole.
void write_checkpoint(const std::filesystem::path& folder, const std::vector<CheckpointTensor>& tensors,
                      const Metadata& metadata, Crew& crew);

/// A checkpoint to read from. A FileError that names the file.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);
  /// Of the metadata, which must have it.
  [[nodiscard]] const std::string& at(const std::string& key) const;
  /// A copy of what `like` wants. A FileError that says what was expected and what is there.
  [[nodiscard]] Tensor read(const CheckpointTensor& like) const;
  [[nodiscard]] bool has(const std::string& name) const { return set_.has(name); }
  void verify() const { set_.verify(); }

 private:
  std::filesystem::path folder_;
  SavedSet set_;
};

/// What `work` throws, in words, or nothing: to be told to the other ranks.
[[nodiscard]] std::string problem_of(FunctionRef<void()> work);
/// Throws on all ranks, as a FileError, what any of them has to tell; `mine` is empty where all is well. Collective.
void agree_on(Crew& crew, const std::string& mine);

}  // namespace pleiad
