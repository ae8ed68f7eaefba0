package guest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"quantix/internal/fleet"
)

// vsockAgentCaller returns a function that sends a command to the guest agent on the guest's vsock, which libvirt does
// not support. Each command uses a new connection: the agent serves one connection at a time, so an open connection
// would block all others.
func vsockAgentCaller(ctx context.Context, cid uint32) agentCaller {
	return func(command string, limit time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		f, err := dialVSOCK(ctx, cid, fleet.AgentPort)
		if err != nil {
			return "", fmt.Errorf("%w: connect to port %d of the guest's vsock: %w", errNoAnswer, fleet.AgentPort, err)
		}
		defer f.Close()
		stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		return sendCommand(f, command)
	}
}

// sendCommand sends one command to the agent over a new connection and returns the answer. It skips bytes that the
// agent still sends to an earlier client.
func sendCommand(rw io.ReadWriter, command string) (string, error) {
	var number [4]byte
	_, _ = rand.Read(number[:]) // never fails: without randomness, the program exits
	id := int64(binary.BigEndian.Uint32(number[:]))
	// The byte 0xff, which JSON cannot contain, makes an agent drop an incomplete earlier command.
	if _, err := fmt.Fprintf(rw, "\xff{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":%d}}\n", id); err != nil {
		return "", agentConnError(err)
	}
	in := bufio.NewReader(rw)
	for {
		if err := skipPast(in, 0xff); err != nil {
			return "", agentConnError(err)
		}
		line, err := readLine(in)
		if err != nil {
			return "", agentConnError(err)
		}
		var sync agentReply[int64]
		if json.Unmarshal(line, &sync) == nil && sync.Return == id {
			break
		}
	}
	if _, err := io.WriteString(rw, command+"\n"); err != nil {
		return "", agentConnError(err)
	}
	line, err := readLine(in)
	if err != nil {
		return "", agentConnError(err)
	}
	var failed struct {
		Error *struct {
			Desc string `json:"desc"`
		} `json:"error"`
	}
	if json.Unmarshal(line, &failed) == nil && failed.Error != nil {
		return "", fmt.Errorf("the guest agent: %s", guestText(failed.Error.Desc))
	}
	return string(line), nil
}

// agentConnError converts a read or write error to the error for a guest agent that does not answer.
func agentConnError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w in time", errNoAnswer)
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}

// maxSkippedBytes limits how many bytes of an answer to an earlier client are skipped.
const maxSkippedBytes = 4 << 20

// skipPast skips all bytes up to and including mark.
func skipPast(r *bufio.Reader, mark byte) error {
	for range maxSkippedBytes {
		switch b, err := r.ReadByte(); {
		case err != nil:
			return err
		case b == mark:
			return nil
		}
	}
	return errors.New("the earlier answer does not end")
}

// readLine reads one answer. It fails on an answer that is longer than any expected one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxExecAnswer {
			return nil, fmt.Errorf("the answer is larger than %d KiB", maxExecAnswer>>10)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, net.ErrClosed
		case err != nil:
			return nil, err
		default:
			return bytes.TrimSpace(line), nil
		}
	}
}
