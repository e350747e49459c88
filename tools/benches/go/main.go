// Reads records as fast as possible with franz-go's share consumer, and accesses every value.
//
// Arguments have the form key=value. Prints the figures as one line of JSON. Ends when its standard input is closed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	given := map[string]string{}
	for _, word := range os.Args[1:] {
		name, value, _ := strings.Cut(word, "=")
		given[name] = value
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(20 * time.Second)
		os.Exit(1)
	}()
	if err := read(given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(given map[string]string) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(given["bootstrap"]),
		kgo.ConsumeTopics(given["topic"]),
		kgo.ShareGroup(given["group"]),
	}
	if text, ok := given["max_records"]; ok {
		most, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		options = append(options, kgo.ShareMaxRecords(int32(most)))
	}
	wanted, err := strconv.Atoi(given["records"])
	if err != nil {
		return err
	}
	made := time.Now()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	var first time.Time
	var cpu time.Duration
	seen := 0
	for seen < wanted {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		if first.IsZero() && fetches.NumRecords() > 0 {
			first, cpu = time.Now(), used()
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Value != nil {
				seen++
			}
		})
	}
	fmt.Printf("{\"records\": %d, \"seconds\": %f, \"cpu\": %f, \"first\": %f}\n",
		seen, time.Since(first).Seconds(), (used() - cpu).Seconds(), first.Sub(made).Seconds())
	return nil
}

// used returns the CPU time of all threads so far.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
