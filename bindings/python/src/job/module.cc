// The extension module pleiad._job: SINGA jobs. pleiad._core defines the errors and the session, pleiad._nn the nets.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "job/lone.h"
#include "job/terminal.h"
#include "nn/interrupt.h"
#include "pleiad/data.h"
#include "pleiad/job.h"
#include "pleiad/records.h"
#include "session.h"
#include "waiting.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

Job job_of(const nb::bytes& bytes) { return Job::from_bytes(std::string(bytes.c_str(), bytes.size())); }
nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

using Metrics = std::vector<std::pair<std::string, double>>;
using ReportRow = std::tuple<std::int64_t, std::string, Metrics, double>;

/// Returns the reports, whether the job completed, the last step and the last checkpoint.
std::tuple<std::vector<ReportRow>, bool, std::int64_t, std::string> run(const nb::bytes& bytes, bool resume, bool test,
                                                                        const std::string& display,
                                                                        const SessionHandle* session) {
  const Job job = job_of(bytes);
  JobOptions options;
  options.resume = resume;
  options.test = test;
  options.display = display;
  std::shared_ptr<Session> shared;
  if (session != nullptr) {
    shared = session->share();
    // The exchange waits on its own thread, where Python signal handlers do not run.
    shared->set_interrupt([check = signal_check()] { return check() || Interrupt::overdue(); });
  }
  const Interrupt interrupt;
  options.stop = [] { return Interrupt::raised(); };
  const JobResult result = waiting([&] { return run_job(job, options, shared.get()); });
  std::vector<ReportRow> rows;
  for (const JobReport& r : result.reports) rows.emplace_back(r.step, r.phase, r.metrics, r.samples_per_second);
  return {std::move(rows), result.ended, result.step, result.checkpoint};
}

}  // namespace

void bind_jobs(nb::module_& m) {
  m.def("descriptor", [] { return bytes_of(job_descriptor()); });
  m.def("run", &run, nb::arg("job"), nb::arg("resume"), nb::arg("test"), nb::arg("display"), nb::arg("session").none(),
        nb::sig("def run(job: bytes, resume: bool, test: bool, display: str, session: pleiad._core.Session | None) -> "
                "tuple[list[tuple[int, str, list[tuple[str, float]], float]], bool, int, str]"));
  m.def("from_file", [](const std::string& path) { return bytes_of(Job::from_file(path).bytes()); }, nb::arg("path"));
  m.def(
      "from_text",
      [](const std::string& text, const std::string& where) { return bytes_of(Job::from_text(text, where).bytes()); },
      nb::arg("text"), nb::arg("where"));
  m.def(
      "explain", [](const nb::bytes& job, int ranks) { return explain_job(job_of(job), ranks); }, nb::arg("job"),
      nb::arg("ranks"));
  m.def(
      "net",
      [](const nb::bytes& job, const std::string& checkpoint) {
        return std::make_unique<nn::Net>(net_of_job(job_of(job), checkpoint)).release();
      },
      nb::rv_policy::take_ownership, nb::arg("job"), nb::arg("checkpoint"),
      nb::sig("def net(job: bytes, checkpoint: str) -> pleiad._nn.Net"));
  m.def("on_terminal", [] { return on_terminal(); });
  m.def("summary", [](const nb::bytes& job) { return describe_job(job_of(job)); }, nb::arg("job"));
  m.def(
      "write_mean",
      [](const std::string& path, const std::vector<std::int64_t>& shape, const std::vector<float>& mean) {
        write_mean(path, shape, mean);
      },
      nb::arg("path"), nb::arg("shape"), nb::arg("mean"));
  m.def(
      "generate_cifar10",
      [](const std::string& folder, std::int64_t train, std::int64_t test) {
        waiting([&] { generate_cifar10(folder, {.train = train, .test = test}); });
      },
      nb::arg("folder"), nb::arg("train"), nb::arg("test"));
  m.def(
      "export_checkpoint",
      [](const nb::bytes& job, const std::string& checkpoint, const std::string& path, const std::string& layout) {
        export_job_checkpoint(job_of(job), checkpoint, path, layout);
      },
      nb::arg("job"), nb::arg("checkpoint"), nb::arg("path"), nb::arg("layout"));
  m.def(
      "import_checkpoint",
      [](const nb::bytes& job, const std::string& path, const std::string& checkpoint, std::int64_t step) {
        import_job_checkpoint(job_of(job), path, checkpoint, step);
      },
      nb::arg("job"), nb::arg("path"), nb::arg("checkpoint"), nb::arg("step"));
  m.def(
      "save_checkpoint",
      [](const nb::bytes& job, const nn::Net& net, const std::string& path, std::int64_t step) {
        save_job_checkpoint(job_of(job), net, path, step);
      },
      nb::arg("job"), nb::arg("net"), nb::arg("path"), nb::arg("step"),
      nb::sig("def save_checkpoint(job: bytes, net: pleiad._nn.Net, path: str, step: int) -> None"));
}

}  // namespace pleiad::python

NB_MODULE(_job, m) {
  m.doc() = "SINGA jobs, the foundation of the package singa.";
  nanobind::module_::import_("pleiad._core");
  nanobind::module_::import_("pleiad._nn");
  nanobind::set_leak_warnings(false);
  pleiad::python::bind_jobs(m);
  pleiad::python::bind_lone_layers(m);
  pleiad::python::bind_own_layers(m);
}
