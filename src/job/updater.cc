#include "job/updater.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "core/text.h"

namespace pleiad::job {
namespace {

/// Updaters that users have registered, by name. They are registered before a job runs and looked up while one is
/// built.
struct UserUpdaters {
  std::mutex mutex;
  std::map<std::string, UpdaterOptions> options;
};
UserUpdaters& user_updaters() {
  static UserUpdaters all;
  return all;
}

UpdaterOptions user_updater(const JobImpl& job, const std::string& type) {
  UserUpdaters& own = user_updaters();
  const std::scoped_lock lock(own.mutex);
  if (const auto found = own.options.find(type); found != own.options.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, options] : own.options) known.push_back(name);
  if (type.empty())
    throw_invalid(job, "updater.type", "expected one of the built-in types, such as kSGD; received none");
  throw_invalid(job, "updater.user_type",
                known.empty() ? fmt::format("no updater is registered under \"{}\", nor under any other name", type)
                              : unknown_name("user-defined updater", type, known));
}

/// Converts a float of the job without the digits that its binary form adds.
double plain(float number) { return std::stod(fmt::format("{}", number)); }

}  // namespace

UpdaterOptions updater_options(const JobImpl& job, const UpdaterProto& u) {
  UpdaterOptions to;
  switch (u.type()) {
    case kSGD: to.rule = u.momentum() == 0 ? "sgd" : "singa/sgd"; break;
    case kAdaGrad: to.rule = "singa/adagrad"; break;
    case kRMSProp:
      to.rule = "singa/rmsprop";
      if (!u.rmsprop_conf().has_rho()) throw_invalid(job, "updater.rmsprop_conf", "expected rho; received none");
      to.decay = plain(u.rmsprop_conf().rho());
      break;
    case kNesterov: to.rule = "singa/nesterov"; break;
    case kAdaDelta:
      to.rule = "singa/adadelta";
      to.decay = plain(u.adadelta_conf().rho());
      break;
    case kAdam:
      to.rule = "singa/adam";
      to.beta1 = plain(u.adam_conf().beta1());
      to.beta2 = plain(u.adam_conf().beta2());
      break;
    case kAdamMax:
      to.rule = "singa/adamax";
      to.beta1 = plain(u.adammax_conf().beta1());
      to.beta2 = plain(u.adammax_conf().beta2());
      break;
    case kUserUpdater: to = user_updater(job, u.user_type()); break;
  }
  to.momentum = plain(u.momentum());
  to.weight_decay = plain(u.weight_decay());
  to.epsilon = plain(u.delta());
  to.clip_low = plain(u.clip_low());
  to.clip_high = plain(u.clip_high());
  if (to.momentum < 0 || to.momentum >= 1) {
    throw_invalid(job, "updater.momentum", fmt::format("expected 0 to below 1; received {}", to.momentum));
  }
  if (to.weight_decay < 0) {
    throw_invalid(job, "updater.weight_decay", fmt::format("expected 0 or more; received {}", to.weight_decay));
  }
  return to;
}

nn::Schedule schedule_options(const JobImpl& job, const UpdaterProto& u) {
  const LRGenProto& from = u.learning_rate();
  const std::string path = "updater.learning_rate";
  nn::Schedule to{.type = "fixed", .base = plain(from.base_lr())};
  std::string conf;
  switch (from.type()) {
    case kFixed: break;
    case kInverseT:
      to.type = "inverse_t";
      conf = "inverset_conf";
      to.final = plain(from.inverset_conf().final_lr());
      break;
    case kInverse:
      to.type = "inverse";
      to.gamma = plain(from.inverse_conf().gamma());
      to.power = plain(from.inverse_conf().pow());
      break;
    case kExponential:
      to.type = "exponential";
      conf = "exponential_conf";
      to.freq = from.exponential_conf().change_freq();
      break;
    case kLinear:
      to.type = "linear";
      conf = "linear_conf";
      to.freq = from.linear_conf().change_freq();
      to.final = plain(from.linear_conf().final_lr());
      break;
    case kStep:
      to.type = "step";
      conf = "step_conf";
      to.freq = from.step_conf().change_freq();
      to.gamma = plain(from.step_conf().gamma());
      break;
    case kFixedStep:
      to.type = "fixed_step";
      conf = "fixedstep_conf";
      to.steps.assign(from.fixedstep_conf().step().begin(), from.fixedstep_conf().step().end());
      for (const float rate : from.fixedstep_conf().step_lr()) to.rates.push_back(plain(rate));
      break;
    case kUserChange: throw_invalid(job, path, "expected a type, such as kFixed; received none");
  }
  try {
    nn::check(to);
  } catch (const InvalidArgument& error) {
    throw_invalid(job, conf.empty() ? path : path + "." + conf, error.what());
  }
  return to;
}

UpdaterOptions updater_of(const JobImpl& job) { return updater_options(job, job.proto.updater()); }
nn::Schedule schedule_of(const JobImpl& job) { return schedule_options(job, job.proto.updater()); }

}  // namespace pleiad::job

namespace pleiad {

void register_job_updater(const std::string& user_type, const UpdaterOptions& options) {
  job::UserUpdaters& own = job::user_updaters();
  const std::scoped_lock lock(own.mutex);
  own.options[user_type] = options;
}

std::pair<UpdaterOptions, nn::Schedule> updater_of_job(const std::string& updater) {
  job::JobImpl in;
  in.where = "updater";
  if (!in.proto.mutable_updater()->ParseFromString(updater)) {
    throw InvalidArgument("updater: the bytes are not an UpdaterProto");
  }
  return {job::updater_of(in), job::schedule_of(in)};
}

}  // namespace pleiad
