// The command `pleiad`.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.h"
#include "completion.h"
#include "core/option_list.h"
#include "core/text.h"
#include "info.h"
#include "inspect.h"
#include "launch.h"
#include "pleiad/data.h"
#include "rank.h"

namespace {

using pleiad::cli::LaunchOptions;

using pleiad::cli::fail;
using pleiad::cli::parse;
using pleiad::cli::Words;

/// Splits `launch -n 4 CMD ARGS` before CMD, so that the command keeps its own options. A "--" before CMD is dropped.
Words cut_command(const CLI::App& app, Words& words) {
  std::size_t at = 0;
  for (; at < words.size() && words[at] != "--" && words[at].size() > 1 && words[at][0] == '-'; ++at) {
    const CLI::Option* option = app.get_option_no_throw(words[at]);
    if (option != nullptr && option->get_expected_min() > 0) ++at;
  }
  at = std::min(at, words.size());
  const bool marked = at < words.size() && words[at] == "--";
  Words command(words.begin() + static_cast<std::ptrdiff_t>(at) + (marked ? 1 : 0), words.end());
  words.resize(at);
  return command;
}

void add_launch_options(CLI::App& app, LaunchOptions& options) {
  const CLI::Validator seconds(
      [](const std::string& text) {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= 0 && !std::isnan(value);
        return good ? std::string() : fmt::format("expected seconds, 0 or more; received {}", text);
      },
      "SECONDS");
  const CLI::Validator at_least_one(
      [](const std::string& text) {
        int value = 0;
        const bool good = CLI::detail::lexical_cast(text, value) && value >= 1;
        return good ? std::string() : fmt::format("expected a number of ranks, 1 or more; received {}", text);
      },
      "");
  app.add_option("-n,--ranks", options.ranks, "Number of processes")->required()->check(at_least_one);
  app.add_option("--hostfile", options.hostfile, "File with the hosts, in mpirun's format")->check(CLI::ExistingFile);
  app.add_option("--timeout", options.timeout, "End the job after this many seconds; 0 disables it")->check(seconds);
  app.add_option("--grace", options.grace, "Seconds that the other ranks may continue after one has failed")
      ->check(seconds)
      ->capture_default_str();
  app.add_option("--stop-timeout", options.stop_timeout,
                 "Seconds that the ranks may take to save their state and end after Ctrl-C or SIGTERM")
      ->check(seconds)
      ->capture_default_str();
  app.add_option("--restart", options.restarts,
                 "Number of restarts after a rank has died or failed; the job resumes from its last snapshot")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--bind", options.bind, "Bind each rank to a core, or to none")
      ->check(CLI::IsMember({"core", "none"}))
      ->capture_default_str();
  app.add_flag("--tag-output", options.tag_output, "Prefix each line with job, rank and stream");
  app.add_flag("--mpi", options.mpi, "Use mpirun even on one host, for programs that call MPI themselves");
  app.add_flag("-v,--verbose", options.verbose, "Print the command that is run, and mpirun's messages");
}

int run_launch(Words words) {
  LaunchOptions options;
  CLI::App app("Run a command in several processes, on several hosts by mpirun.", "pleiad launch");
  app.footer("CMD ARGS... follow the options: pleiad launch -n 4 python3 train.py --epochs 2");
  add_launch_options(app, options);
  options.command = cut_command(app, words);
  bool done = false;
  if (const int code = parse(app, words, done); done) return code;
  if (options.command.empty()) return fail(app, "no command to run; expected: pleiad launch -n 4 CMD ARGS...");
  return pleiad::cli::launch(options);
}

int run_generate(const Words& words) {
  std::string set;
  std::string folder;
  pleiad::GeneratorOptions options;
  CLI::App app("Generate a synthetic data set, with the same bytes on every machine.", "pleiad generate");
  app.add_option("SET", set, "cifar10: images of ten kinds of shapes in CIFAR-10's binary format")
      ->required()
      ->check(CLI::IsMember({"cifar10"}));
  app.add_option("FOLDER", folder, "Folder to write to")->required();
  app.add_option("--train", options.train, "Number of training images")->capture_default_str();
  app.add_option("--test", options.test, "Number of test images")->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the random numbers")->capture_default_str();
  bool done = false;
  if (const int code = parse(app, words, done); done) return code;
  pleiad::generate_cifar10(folder, options);
  fmt::print("{}: {} training images, {} test images\n", folder, pleiad::grouped(options.train),
             pleiad::grouped(options.test));
  return 0;
}

int run_inspect(const Words& words) {
  pleiad::cli::InspectOptions options;
  CLI::App app("Print the content of a snapshot, a folder of snapshots, a safetensors file or a SINGA checkpoint.",
               "pleiad inspect");
  app.add_option("PATH", options.path, "The snapshot, folder or file")->required();
  app.add_flag("--numbers", options.numbers, "Print minimum, maximum and mean of every array");
  app.add_flag("--verify", options.verify, "Read everything and compare the checksums");
  app.add_flag("--net", options.net, "Print the net of a checkpoint, as JSON");
  bool done = false;
  if (const int code = parse(app, words, done); done) return code;
  return pleiad::cli::inspect(options);
}

int run_completion(const Words& words) {
  std::string shell;
  CLI::App app("Print the completion of this command for a shell.", "pleiad completion");
  app.footer(
      "Add to ~/.bashrc: source <(pleiad completion bash)\n"
      "Add to ~/.zshrc, after compinit: source <(pleiad completion zsh)");
  app.add_option("SHELL", shell, "The shell")->required()->check(CLI::IsMember({"bash", "zsh"}));
  bool done = false;
  if (const int code = parse(app, words, done); done) return code;
  fmt::print("{}", shell == "bash" ? pleiad::cli::kBashCompletion : pleiad::cli::kZshCompletion);
  return 0;
}

/// Commands that need the training engine and the data formats. They are in a separate program beside this one.
const Words kTools = {"convert", "explain", "export", "import", "run"};

int run_tool(const Words& words) {
  const std::string program = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "pleiad-tools").string();
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw std::runtime_error(fmt::format("cannot run {}: {}", program, std::strerror(errno)));
}

/// Runs a neon experiment with the command neon, found beside this program or on the PATH, or else with the Python
/// package.
int run_experiment(const Words& words) {
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "neon";
  for (const Words& first : {Words{beside.string()}, Words{"neon"}, Words{"python3", "-m", "neon"}}) {
    std::vector<char*> arguments;
    for (const Words* part : {&first, &words}) {
      for (const std::string& word : *part) arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
  }
  throw std::runtime_error("an experiment in YAML is run by Python's package neon; neither neon nor python3 was found");
}

bool is_yaml(const std::string& word) { return word.ends_with(".yaml") || word.ends_with(".yml"); }

int run(const Words& words) {
  // The wrapper of each rank, in the form in which launch calls it: rank --grace 5 -- CMD ARGS...
  if (words.size() > 4 && words[0] == "rank" && words[3] == "--") {
    return pleiad::cli::run_rank({.grace = std::stod(words[2])}, Words(words.begin() + 4, words.end()));
  }
  // `pleiad help launch` prints what `pleiad launch --help` prints.
  if (!words.empty() && words[0] == "help") {
    if (words.size() == 1) return run({"--help"});
    if (words[1] != "help" && words[1] != "--help" && words[1] != "-h") return run({words[1], "--help"});
    fmt::print("Print the help of a command.\nUsage: pleiad help [COMMAND]\n");
    return 0;
  }
  if (!words.empty() && words[0] == "launch") return run_launch(Words(words.begin() + 1, words.end()));

  if (!words.empty() && words[0] == "generate") return run_generate(Words(words.begin() + 1, words.end()));
  if (!words.empty() && words[0] == "inspect") return run_inspect(Words(words.begin() + 1, words.end()));
  if (!words.empty() && words[0] == "completion") return run_completion(Words(words.begin() + 1, words.end()));

  if (!words.empty() && words[0] == "run" && std::ranges::any_of(words, is_yaml)) {
    return run_experiment(Words(words.begin() + 1, words.end()));
  }
  if (!words.empty() && std::ranges::find(kTools, words[0]) != kTools.end()) return run_tool(words);

  CLI::App app("Many processes, one model.", "pleiad");
  app.set_version_flag("--version", "pleiad " PLEIAD_VERSION);
  app.add_subcommand("launch", "Run a command in several processes");
  const CLI::App* info =
      app.add_subcommand("info", "Print the version of this build and the properties of this machine");
  const CLI::App* options =
      app.add_subcommand("options", "Print every option of sessions, tables and updaters, as Markdown");
  app.add_subcommand("convert", "Convert a store of records to another kind");
  app.add_subcommand("export", "Write the parameters of a checkpoint as safetensors, also for PyTorch");
  app.add_subcommand("import", "Make a checkpoint from a safetensors file or a PyTorch state dict");
  app.add_subcommand("explain", "Print which rank does what for a net, and the bytes of a step");
  app.add_subcommand("generate", "Generate a synthetic data set");
  app.add_subcommand("inspect", "Print the content of a snapshot, a safetensors file or a SINGA checkpoint");
  app.add_subcommand("run", "Run a training job: SINGA's job.conf, or neon's experiment in YAML");
  app.add_subcommand("completion", "Print the completion of this command for bash or zsh");
  app.add_subcommand("help", "Print the help of a command: pleiad help launch");
  const Words known = {"completion", "convert", "explain", "export", "generate", "help",
                       "import",     "info",    "inspect", "launch", "options",  "run"};
  if (!words.empty() && !words[0].starts_with('-') && std::ranges::find(known, words[0]) == known.end()) {
    return fail(app, pleiad::unknown_name("subcommand", words[0], known));
  }
  bool done = false;
  if (const int code = parse(app, words, done); done) return code;
  if (options->parsed()) {
    fmt::print("{}", pleiad::options_markdown());
    return 0;
  }
  if (!info->parsed()) return fail(app, "expected a subcommand: " + pleiad::join(known));
  return pleiad::cli::print_info();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(Words(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "pleiad: {}\n", error.what());
    return 1;
  }
}
