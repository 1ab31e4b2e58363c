package main

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

func TestSlowLinkDelays(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // echoes lines until the other side closes
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if _, err := conn.Write(append(lines.Bytes(), '\n')); err != nil {
				return
			}
		}
	}()
	link, err := newSlowLink(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := link.close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", link.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewScanner(conn)
	for _, delay := range []time.Duration{0, 60 * time.Millisecond} {
		link.slow(delay)
		start := time.Now()
		if _, err := conn.Write([]byte("ping\n")); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() || answers.Text() != "ping" {
			t.Fatalf("got %q, %v", answers.Text(), answers.Err())
		}
		if took := time.Since(start); took < 2*delay {
			t.Errorf("delay %v each way: the answer took %v", delay, took)
		}
	}
}

func TestASickTimelineKnowsItsFault(t *testing.T) {
	needServers(t)
	o, err := parse([]string{"-preset", "smoke"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := &bench{options: o, cluster: c, notes: t.Output()}
	err = b.onOwnNodes(t.Context(), true, func(own *bench) error {
		got, err := own.sickTimeline(t.Context(), slow.on(1), contend.Guarded)
		if err != nil {
			return err
		}
		ticks := int((sickBefore + sickDuring + sickAfter) / measure.TickLength)
		if got.Fault == nil || got.Fault.What != "1 slow by 50 ms" || len(got.Rounds[0].Timeline) != ticks || got.Rounds[0].Ops < 1 {
			t.Errorf("got %+v", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
