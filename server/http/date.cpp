// SPDX-License-Identifier: Apache-2.0
#include "http/date.hpp"

#include <algorithm>

namespace bwos::server {
namespace {

char* put(char* to, std::string_view text) noexcept {
  return std::copy(text.begin(), text.end(), to);
}

char* put_two(char* to, int value) noexcept {
  *to++ = static_cast<char>('0' + value / 10);
  *to++ = static_cast<char>('0' + value % 10);
  return to;
}

}  // namespace

void write_http_date(std::time_t seconds, char* to) noexcept {
  constexpr std::string_view days = "SunMonTueWedThuFriSat";
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  const int year = utc.tm_year + 1900;
  to = put(to, days.substr(static_cast<std::size_t>(utc.tm_wday) * 3, 3));
  to = put_two(put(to, ", "), utc.tm_mday);
  to = put(put(to, " "), months.substr(static_cast<std::size_t>(utc.tm_mon) * 3, 3));
  to = put_two(put_two(put(to, " "), year / 100), year % 100);
  to = put_two(put(to, " "), utc.tm_hour);
  to = put_two(put(to, ":"), utc.tm_min);
  to = put_two(put(to, ":"), utc.tm_sec);
  put(to, " GMT");
}

void date_cache::refresh(clock::time_point now) noexcept {
  std::timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  char* const to = put(text_.data(), "Date: ");
  write_http_date(wall.tv_sec, to);
  put(to + 29, "\r\n");
  valid_until_ = now + std::chrono::nanoseconds(1'000'000'000 - wall.tv_nsec);
}

}  // namespace bwos::server
