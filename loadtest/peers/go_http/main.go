// SPDX-License-Identifier: Apache-2.0

// The same endpoints as a user of Go's net/http writes them: its server starts a goroutine for each
// connection. Its fields come in alphabetical order; everything else is as the other peers answer.
package main

import (
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"

	"bwos/peers/common"
)

// Lengths are given because net/http sends a longer body without one in chunks.
func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // an error ended this connection: its client will notice
}

func text(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/plain")
	answer(w, http.StatusOK, body)
}

// What `/work?us=N` asks for; false without that query.
func workUs(query string) (uint64, bool) {
	number, found := strings.CutPrefix(query, "us=")
	if rest := strings.IndexFunc(number, func(r rune) bool { return r < '0' || r > '9' }); rest >= 0 {
		number = number[:rest]
	}
	us, _ := strconv.ParseUint(number, 10, 64)
	return us, found
}

func echo(w http.ResponseWriter, request *http.Request) {
	if request.ContentLength < 0 || request.ContentLength > common.BodyBytesMax {
		panic(http.ErrAbortHandler) // closes the connection
	}
	body := make([]byte, request.ContentLength)
	if _, err := io.ReadFull(request.Body, body); err != nil {
		panic(http.ErrAbortHandler)
	}
	text(w, body)
}

var hello = []byte("Hello, World!")

func main() {
	with := common.ParseOptions("http")
	handle := func(w http.ResponseWriter, request *http.Request) {
		if !with.Date {
			w.Header()["Date"] = nil
		}
		switch request.Method + " " + request.URL.Path {
		case "GET /plaintext":
			text(w, hello)
		case "POST /echo":
			echo(w, request)
		case "GET /work":
			us, found := workUs(request.URL.RawQuery)
			if !found {
				answer(w, http.StatusNotFound, nil)
				return
			}
			common.BurnThreadCPU(us)
			text(w, hello)
		default:
			answer(w, http.StatusNotFound, nil)
		}
	}
	log.Fatal(http.Serve(common.Listen(with), http.HandlerFunc(handle)))
}
