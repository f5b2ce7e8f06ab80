// SPDX-License-Identifier: Apache-2.0
// A strict reader of Prometheus' text format 0.0.4, as far as we write it.
#pragma once

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bwos::server {

class exposition {
 public:
  /// The first violation, or nothing.
  std::optional<std::string> read(const std::string& text) {
    if (text.empty() || text.back() != '\n') return "does not end with a line feed";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (auto error = read_line(line)) return error->append(": ").append(line);
    }
    for (const auto& [name, type] : types_) {
      if (samples_of_[name] == 0) return name + " has no samples";
      if (type == "histogram") {
        if (auto error = check_histogram(name)) return error;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] double value(const std::string& series) const {
    const auto found = values_.find(series);
    return found == values_.end() ? std::nan("") : found->second;
  }
  [[nodiscard]] const std::map<std::string, std::string>& types() const { return types_; }

 private:
  static constexpr std::string_view name_letters = "abcdefghijklmnopqrstuvwxyz0123456789_";

  /// Takes the longest prefix of `rest` that consists of `allowed`.
  static std::string take(std::string_view& rest, std::string_view allowed) {
    const std::string taken(rest.substr(0, rest.find_first_not_of(allowed)));
    rest.remove_prefix(taken.size());
    return taken;
  }
  static bool skip(std::string_view& rest, std::string_view text) {
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
    return true;
  }

  std::optional<std::string> read_line(std::string_view rest) {
    if (skip(rest, "# HELP ")) {
      present_ = take(rest, name_letters);
      if (present_.empty() || !skip(rest, " ") || rest.empty()) return "bad HELP";
      if (rest.find('\\') != std::string_view::npos) return "escape in HELP";
      if (!helped_.insert(present_).second) return "second HELP";
      return std::nullopt;
    }
    if (skip(rest, "# TYPE ")) {
      if (take(rest, name_letters) != present_) return "TYPE without its HELP before";
      if (rest != " counter" && rest != " gauge" && rest != " histogram") return "bad TYPE";
      if (!types_.emplace(present_, rest.substr(1)).second) return "second TYPE";
      if (rest == " counter" && !present_.ends_with("_total")) return "counter without _total";
      return std::nullopt;
    }
    const std::string name = take(rest, name_letters);
    if (name.empty()) return "no HELP, TYPE or sample";
    const std::string_view from = rest;
    if (skip(rest, "{")) {
      do {
        if (take(rest, name_letters).empty() || !skip(rest, "=\"")) return "bad label";
        const auto end = rest.find_first_of("\"\\");
        if (end == std::string_view::npos || rest[end] != '"') return "bad label value";
        rest.remove_prefix(end + 1);
      } while (skip(rest, ","));
      if (!skip(rest, "}")) return "labels without an end";
    }
    const std::string labels(from.substr(0, from.size() - rest.size()));
    if (!skip(rest, " ")) return "no value";
    return read_sample(name, labels, std::string(rest));
  }

  std::optional<std::string> read_sample(std::string name, const std::string& labels,
                                         const std::string& digits) {
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || !(value >= 0))
      return "bad value";
    if (!values_.emplace(name + labels, value).second) return "second sample of a series";
    if (types_.contains(present_) && types_[present_] == "histogram") {
      if (name == present_ + "_bucket") {
        buckets_[present_].emplace_back(labels, value);
      } else if (name != present_ + "_sum" && name != present_ + "_count") {
        return "not of the open histogram";
      }
      name = present_;
    }
    if (name != present_ || !types_.contains(name)) return "sample apart from its TYPE";
    ++samples_of_[name];
    return std::nullopt;
  }

  std::optional<std::string> check_histogram(const std::string& name) {
    const auto& buckets = buckets_[name];
    if (buckets.empty() || buckets.back().first != "{le=\"+Inf\"}")
      return name + " does not end with +Inf";
    double bound = -1;
    double below = 0;
    for (const auto& [labels, value] : buckets) {
      if (value < below) return "not cumulative at " + labels;
      below = value;
      if (labels == "{le=\"+Inf\"}") continue;
      const double next = std::stod(labels.substr(5));
      if (next <= bound) return "unordered bounds at " + labels;
      bound = next;
    }
    if (value(name + "_count") != below) return name + "_count differs from +Inf";
    if (std::isnan(value(name + "_sum"))) return name + " has no sum";
    return std::nullopt;
  }

  std::string present_;
  std::set<std::string> helped_;
  std::map<std::string, std::string> types_;
  std::map<std::string, double> values_;
  std::map<std::string, int> samples_of_;
  std::map<std::string, std::vector<std::pair<std::string, double>>> buckets_;
};

}  // namespace bwos::server
