// Trains nets one after the other, each on top of the previous ones.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "pleiad/train.h"

namespace pleiad {

/// Returns the name of the i-th layer or stage, counted from 1, for example "enc1".
inline std::string stage_name(const char* kind, std::size_t i) { return fmt::format("{}{}", kind, i + 1); }

/// Trains each stage of a stack that has size(), stage(i) and take(i, net). The checkpoints of stage i are in the
/// subfolder "<name><i + 1>". Returns false if a run was stopped.
template <class Stack>
bool train_stages(Stack& stack, const char* name, Samples& samples, const TrainOptions& options, Session* session,
                  const std::function<TrainCalls(std::size_t)>& calls) {
  for (std::size_t i = 0; i < stack.size(); ++i) {
    nn::Net net = stack.stage(i);
    TrainOptions own = options;
    if (!own.checkpoint_folder.empty()) {
      own.checkpoint_folder = (std::filesystem::path(options.checkpoint_folder) / stage_name(name, i)).string();
    }
    const auto trainer =
        session == nullptr ? std::make_unique<Trainer>(net, own) : std::make_unique<Trainer>(net, own, *session);
    if (!own.checkpoint_folder.empty()) trainer->resume();
    if (!trainer->run(samples, nullptr, nullptr, calls ? calls(i) : TrainCalls{})) return false;
    if (own.plan.kind == PlanKind::spatial) {
      stack.take(i, trainer->whole_net());
    } else {
      stack.take(i, net);
    }
  }
  return true;
}

}  // namespace pleiad
