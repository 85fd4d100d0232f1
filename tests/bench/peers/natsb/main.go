// A Go client of NATS JetStream as a program of its own: see tests/bench/client_process.py.
//
//	natsb HOST:PORT,...    the servers in their order; each line of the standard input is a request
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	distinct = 8 // payloads that are used in turn
	timeout  = 30 * time.Second
	meeting  = 60 * time.Second // until servers have elected a leader of their own
	try      = 3 * time.Second
	pause    = 300 * time.Millisecond
)

type request struct {
	Call        string   `json:"call"`
	Topic       string   `json:"topic"`
	Topics      []string `json:"topics"`
	Count       int      `json:"count"`
	RecordBytes int      `json:"record_bytes"`
	BatchBytes  int      `json:"batch_bytes"`
	MaxInFlight int      `json:"max_in_flight"`
	Passes      int      `json:"passes"`
}

type answer struct {
	Node       int     `json:"node"`
	Operations int     `json:"operations"`
	DataBytes  int     `json:"data_bytes"`
	Seconds    float64 `json:"seconds"`
	SamplesNs  []int64 `json:"samples_ns,omitempty"`
}

type client struct {
	servers    []string
	connection *nats.Conn
	stream     jetstream.JetStream
	inFlight   int
	ends       map[string]int
	payloads   map[int][][]byte
}

func (c *client) connect(server string, inFlight int) error {
	if c.connection != nil {
		c.connection.Close()
	}
	var err error
	if c.connection, err = nats.Connect("nats://"+server, nats.NoReconnect()); err != nil {
		return err
	}
	c.inFlight = inFlight
	c.stream, err = jetstream.New(c.connection, jetstream.WithPublishAsyncMaxPending(inFlight))
	return err
}

// create makes streams of three replicas; servers that have just started may not have met yet.
func (c *client) create(topics []string) error {
	for _, topic := range topics {
		config := jetstream.StreamConfig{
			Name: topic, Subjects: []string{topic}, Storage: jetstream.FileStorage, Replicas: 3}
		deadline := time.Now().Add(meeting)
		for {
			// Without a leader no server answers.
			within, cancel := context.WithTimeout(context.Background(), try)
			_, err := c.stream.CreateOrUpdateStream(within, config)
			cancel()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return err
			}
			time.Sleep(pause)
		}
	}
	return nil
}

// leader finds the server that leads the stream, and asks that one from now on.
func (c *client) leader(within context.Context, topic string) (int, error) {
	stream, err := c.stream.Stream(within, topic)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(within)
	if err != nil || info.Cluster == nil || info.Cluster.Leader == "" {
		return 0, err
	}
	node, err := strconv.Atoi(strings.TrimPrefix(info.Cluster.Leader, "n"))
	if err != nil {
		return 0, err
	}
	if c.connection.ConnectedAddr() != c.servers[node-1] {
		return node, c.connect(c.servers[node-1], c.inFlight)
	}
	return node, nil
}

func (c *client) append(topic string, count, size int) (*answer, error) {
	payloads := c.of(size)
	samples := make([]int64, 0, count)
	began := time.Now()
	before := began
	for number := 0; number < count; number++ {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		_, err := c.stream.Publish(within, topic, payloads[number%distinct])
		cancel()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		samples = append(samples, now.Sub(before).Nanoseconds())
		before = now
	}
	return &answer{Operations: count, DataBytes: count * size,
		Seconds: time.Since(began).Seconds(), SamplesNs: samples}, nil
}

func (c *client) batches(topic string, count, size, inFlight int) (*answer, error) {
	if c.inFlight != inFlight {
		if err := c.connect(c.connection.ConnectedAddr(), inFlight); err != nil {
			return nil, err
		}
	}
	payloads := c.of(size)
	began := time.Now()
	futures := make([]jetstream.PubAckFuture, 0, count)
	for number := 0; number < count; number++ {
		// It waits while as many are in flight as may be.
		future, err := c.stream.PublishAsync(
			topic, payloads[number%distinct], jetstream.WithStallWait(timeout))
		if err != nil {
			return nil, err
		}
		futures = append(futures, future)
	}
	for _, future := range futures {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return nil, err
		case <-time.After(timeout):
			return nil, errors.New("a batch was not acknowledged in time")
		}
	}
	c.ends[topic] += count
	return &answer{
		Operations: count, DataBytes: count * size, Seconds: time.Since(began).Seconds()}, nil
}

func (c *client) read(topic string, passes int) (*answer, error) {
	began := time.Now()
	bytes := 0
	for pass := 0; pass < passes; pass++ {
		within, cancel := context.WithTimeout(context.Background(), timeout)
		consumer, err := c.stream.OrderedConsumer(within, topic, jetstream.OrderedConsumerConfig{})
		cancel()
		if err != nil {
			return nil, err
		}
		messages, err := consumer.Messages()
		if err != nil {
			return nil, err
		}
		for left := c.ends[topic]; left > 0; left-- {
			message, err := messages.Next(jetstream.NextMaxWait(timeout))
			if err != nil {
				return nil, err
			}
			bytes += len(message.Data())
		}
		messages.Stop()
	}
	return &answer{Operations: passes, DataBytes: bytes, Seconds: time.Since(began).Seconds()}, nil
}

func (c *client) of(size int) [][]byte {
	if c.payloads[size] == nil {
		for number := 0; number < distinct; number++ {
			payload := make([]byte, size)
			rand.Read(payload)
			c.payloads[size] = append(c.payloads[size], payload)
		}
	}
	return c.payloads[size]
}

func (c *client) serve(asked request) (*answer, error) {
	switch asked.Call {
	case "create":
		return &answer{}, c.create(asked.Topics)
	case "leader":
		within, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		node, err := c.leader(within, asked.Topic)
		return &answer{Node: node}, err
	case "append":
		return c.append(asked.Topic, asked.Count, asked.RecordBytes)
	case "batches":
		return c.batches(asked.Topic, asked.Count, asked.BatchBytes, asked.MaxInFlight)
	case "read":
		return c.read(asked.Topic, asked.Passes)
	}
	return nil, fmt.Errorf("there is no call %q", asked.Call)
}

func run() error {
	c := &client{servers: strings.Split(os.Args[1], ","), ends: map[string]int{},
		payloads: map[int][][]byte{}}
	if err := c.connect(c.servers[0], 1); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		done, err := c.serve(asked)
		if err != nil {
			return fmt.Errorf("%s: %w", asked.Call, err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(done); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
