package libvirt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent"
)

// mostGuestAnswer is how much of an agent's answer is read; a guest can answer anything.
const mostGuestAnswer = 256 << 10

// guestSays are the answers to one command of the agent's protocol.
type guestSays[T any] struct {
	Return T `json:"return"`
}

// errSilent is in every error that says that the guest's agent did not answer.
var errSilent = errors.New("the guest's agent does not answer")

// guestAsk gives a guest's agent one command, as text, and returns what it answers.
type guestAsk func(command string, limit time.Duration) (string, error)

// asker asks the guest's agent where it listens.
func asker(ctx context.Context, c *conn, s sighted) guestAsk {
	if s.cid != 0 {
		return overVSOCK(ctx, s.cid)
	}
	return overLibvirt(ctx, c, s.ref)
}

// overLibvirt asks a guest by way of libvirt. libvirt's own calls for the same wait for ever for an agent that hangs, unless the limit is set for
// everybody who asks that guest; so each command goes as it is, with a limit of its own.
func overLibvirt(ctx context.Context, c *conn, ref golibvirt.Domain) guestAsk {
	return func(command string, limit time.Duration) (string, error) {
		said, err := call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.OptString, error) {
			return l.QEMUDomainAgentCommand(ref, command, int32(limit/time.Second), 0)
		})
		switch {
		case is(err, golibvirt.ErrAgentUnresponsive), is(err, golibvirt.ErrAgentCommandTimeout), is(err, golibvirt.ErrAgentUnsynced):
			return "", fmt.Errorf("%w: %w", errSilent, err)
		case err != nil:
			return "", err
		case len(said) == 0:
			return "", errSilent
		}
		return said[0], nil
	}
}

// askGuest gives the guest's agent a command and reads what it returns.
func askGuest[T any](ask guestAsk, limit time.Duration, command string, args any) (T, error) {
	return askGuestFor[T](ask, limit, mostGuestAnswer, command, args)
}

// askGuestFor is askGuest of an answer that may be so long.
func askGuestFor[T any](ask guestAsk, limit time.Duration, most int, command string, args any) (T, error) {
	var out guestSays[T]
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, args})
	if err != nil {
		return out.Return, err
	}
	said, err := ask(string(text), limit)
	switch {
	case err != nil:
		return out.Return, err
	case len(said) > most:
		return out.Return, fmt.Errorf("%w: it said more than %d KiB to %s", errSilent, most>>10, command)
	}
	if err := json.Unmarshal([]byte(said), &out); err != nil {
		return out.Return, fmt.Errorf("%w: it answered %s with what is none", errSilent, command) // not in the guest's own words
	}
	return out.Return, nil
}

// isNoCommand reports whether the agent is too old, or was told, not to know a command.
func isNoCommand(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "has not been found") || strings.Contains(err.Error(), "has been disabled") || strings.Contains(err.Error(), "not supported"))
}

// guestError is what is told of an order that a guest's agent did not carry out.
func guestError(err error) error {
	if errors.Is(err, errSilent) {
		return fmt.Errorf("%w (%w)", agent.NoAgent(), err)
	}
	return err
}
