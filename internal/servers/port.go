package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// firstPort is the lowest port handed out.
const firstPort = 12000

// port is a TCP port of the loopback interface that is ours while we hold it,
// also between a server's death and its restart.
type port struct {
	number int
	claim  *net.UDPConn
}

// reservePort finds a free port below the range from which the kernel takes
// the ports of outgoing connections: one from that range could be gone when a
// killed server comes back. The UDP port of the same number is held as a sign
// to other processes that reserve ports in this way.
func reservePort() (*port, error) {
	last := firstEphemeral() - 1
	if last < firstPort+1000 {
		return nil, fmt.Errorf("servers: no ports between %d and the ephemeral range; raise net.ipv4.ip_local_port_range", firstPort)
	}
	var failed error
	for range 200 {
		number := firstPort + rand.IntN(last-firstPort)
		p, err := tryPort(number)
		if err == nil {
			return p, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("servers: no free port found in 200 tries: %w", failed)
}

// onFreePort lets start begin on a port that it reserves, and on another one when
// the server has ended early: another program may take a port between our look
// and the start. A port on which nothing was started is released.
func onFreePort(start func(*port) error) error {
	var failed error
	for range 5 {
		at, err := reservePort()
		if err != nil {
			return err
		}
		if failed = start(at); failed == nil {
			return nil
		}
		at.release()
		if !errors.Is(failed, errEarlyExit) {
			break
		}
	}
	return failed
}

func tryPort(number int) (*port, error) {
	loopback := net.IPv4(127, 0, 0, 1)
	claim, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback, Port: number})
	if err != nil {
		return nil, err
	}
	probe, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: loopback, Port: number})
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	if err := probe.Close(); err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	return &port{number: number, claim: claim}, nil
}

func (p *port) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

func (p *port) release() { _ = p.claim.Close() }

// firstEphemeral returns the lowest port of outgoing connections.
func firstEphemeral() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var low, high int
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		return usual
	}
	return low
}
