// SPDX-License-Identifier: Apache-2.0

// Package common is what the peers in Go share: the flags of the C++ peers, where they listen, and
// work that burns CPU. Go itself raises the limit of descriptors.
package common

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	BodyBytesMax = 1024 * 1024
	WorkUsMax    = 10_000
)

// Options are those of one peer. Speaks, http or grpc, is what it serves.
type Options struct {
	Address netip.Addr
	Port    uint16 // 0: the kernel chooses
	Threads int
	Date    bool
	Speaks  string
}

func usage(speaks string) {
	date, serves := " [--date]", "GET /plaintext, GET /work?us=N and POST /echo"
	if speaks == "grpc" {
		date, serves = "", "helloworld.Greeter/SayHello and bwos.Work/Burn over gRPC"
	}
	fmt.Fprintf(os.Stderr, "usage: %s [--address 127.0.0.1] [--port 0..65535] [--threads 1..1024]%s\n"+
		"  serves %s there until SIGTERM\n", os.Args[0], date, serves)
	os.Exit(2)
}

// ParseOptions sets GOMAXPROCS to --threads: so many threads run Go code at once.
func ParseOptions(speaks string) Options {
	result := Options{Address: netip.MustParseAddr("127.0.0.1"), Threads: 1, Speaks: speaks}
	rest := os.Args[1:]
	// value of the flag that comes first in rest, which goes on behind it.
	value := func(mustBe string, fits func(text string) bool) {
		text := ""
		if len(rest) > 1 {
			text = rest[1]
		}
		if !fits(text) {
			fmt.Fprintf(os.Stderr, "%s '%s': it must be %s\n", rest[0], text, mustBe)
			usage(speaks)
		}
		rest = rest[2:]
	}
	number := func(least, most int) (found int) {
		value(fmt.Sprintf("a number from %d to %d", least, most), func(text string) bool {
			var err error
			found, err = strconv.Atoi(text)
			return err == nil && found >= least && found <= most
		})
		return found
	}
	for len(rest) > 0 {
		switch flag := rest[0]; {
		case flag == "--date" && speaks == "http":
			result.Date = true
			rest = rest[1:]
		case flag == "--address":
			value("a numeric IPv4 or IPv6 address", func(text string) bool {
				var err error
				result.Address, err = netip.ParseAddr(text)
				return err == nil && result.Address.Zone() == ""
			})
		case flag == "--port":
			result.Port = uint16(number(0, 65535))
		case flag == "--threads":
			result.Threads = number(1, 1024)
		default:
			fmt.Fprintf(os.Stderr, "unknown flag '%s'\n", flag)
			usage(speaks)
		}
	}
	runtime.GOMAXPROCS(result.Threads)
	return result
}

// Listen also prints the ready line: the kernel accepts from now on.
func Listen(with Options) net.Listener {
	at := netip.AddrPortFrom(with.Address, with.Port)
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot listen on %v: %v\n", at, err)
		os.Exit(1)
	}
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf("listening %s=%v\n", with.Speaks, netip.AddrPortFrom(with.Address, port))
	return listener
}

// BurnThreadCPU burns time of its thread's own CPU clock, so that a preempted handler burns no less. It returns how
// many microseconds: at most WorkUsMax.
func BurnThreadCPU(microseconds uint64) uint64 {
	burned := min(microseconds, WorkUsMax)
	runtime.LockOSThread() // that clock's
	defer runtime.UnlockOSThread()
	now := func() int64 {
		var time unix.Timespec
		unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &time)
		return time.Nano()
	}
	end := now() + int64(burned)*1000
	for now() < end {
	}
	return burned
}
