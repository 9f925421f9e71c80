// A main function as in SINGA's documents, with a layer and an updater of its own, built with an installed package.
#include <pleiad/driver.h>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

namespace {

/// y = x * (1 + scale) with a trained scale, whose initial value is in the job.
class Scaled final : public pleiad::nn::Layer {
 public:
  explicit Scaled(const std::string& conf) : params_(pleiad::params_of_job_layer(conf)) {}
  std::string kind() const override { return "scaled"; }
  pleiad::nn::Shapes outputs(const pleiad::nn::Shapes& in) const override { return {in[0]}; }
  std::vector<pleiad::nn::ParamSpec> parameters(const pleiad::nn::Shapes& in) const override {
    return {{.name = "scale", .shape = {in[0][1]}, .wanted = params_.at(0)}};
  }
  void forward(pleiad::nn::Pass& pass) override {
    const auto x = pass.x[0].values<float>(), y = pass.y[0].values<float>(), scale = pass.parameter[0].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * (1 + scale[i % scale.size()]);
  }
  void backward(pleiad::nn::Pass& pass) override {
    const auto x = pass.x[0].values<float>(), dy = pass.dy[0].values<float>(),
               scale = pass.parameter[0].values<float>();
    if (!pass.gradient[0].empty()) {
      pass.gradient[0].fill(0);
      const auto gradient = pass.gradient[0].values<float>();
      for (std::size_t i = 0; i < x.size(); ++i) gradient[i % scale.size()] += x[i] * dy[i];
    }
    if (pass.dx[0].empty()) return;
    const auto dx = pass.dx[0].values<float>();
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] = dy[i] * (1 + scale[i % scale.size()]);
  }

 private:
  const std::vector<pleiad::nn::Param> params_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    pleiad::Driver driver;
    driver.Init(argc, argv);
    driver.RegisterLayer<Scaled>("kScaled");
    // Steps along the sign of the gradient and along a running mean that the rule keeps.
    driver.RegisterUpdater("kSigned",
                           [](const auto& update) {
                             for (std::size_t i = 0; i < update.value.size(); ++i) {
                               auto& mean = update.state[0][i];
                               mean = mean / 2 + update.delta[i] / 2;
                               update.value[i] -= static_cast<std::remove_reference_t<decltype(mean)>>(
                                   update.learning_rate * (mean > 0   ? 1
                                                           : mean < 0 ? -1
                                                                      : 0));
                             }
                           },
                           {.arrays = 1});
    const pleiad::Job job = driver.job_conf();
    const pleiad::JobResult result = driver.test() ? driver.Test(job) : driver.Train(driver.resume(), job);
    for (const pleiad::JobReport& report : result.reports) {
      for (const auto& [name, value] : report.metrics) {
        std::printf("%s %lld %s %.9g\n", report.phase.c_str(), static_cast<long long>(report.step), name.c_str(),
                    value);
      }
    }
    return result.ended ? 0 : 130;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "singa_main: %s\n", error.what());
    return 1;
  }
}
