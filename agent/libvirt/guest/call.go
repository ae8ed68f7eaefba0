package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
)

// maxGuestAnswer limits an agent's answer, in bytes, because a guest can send any amount of data.
const maxGuestAnswer = 256 << 10

// agentReply is the agent protocol's answer to one command.
type agentReply[T any] struct {
	Return T `json:"return"`
}

// errNoAnswer is wrapped by the errors about a guest agent that did not answer, or did not answer validly.
var errNoAnswer = errors.New("the guest's agent does not answer")

// agentCaller sends one command as JSON text to a guest agent and returns the answer.
type agentCaller func(command string, limit time.Duration) (string, error)

// newAgentCaller returns a function that sends commands to the guest's agent: over vsock if the guest has it, else over
// libvirt.
func newAgentCaller(ctx context.Context, c *conn.Conn, s Domain) agentCaller {
	if s.CID != 0 {
		return vsockAgentCaller(ctx, s.CID)
	}
	return libvirtAgentCaller(ctx, c, s.Ref)
}

// libvirtAgentCaller returns a function that sends commands through libvirt. libvirt's calls for single agent commands
// wait forever for a hanging agent, and their time limit can only be set per guest. So each command is sent as text
// with its own limit.
func libvirtAgentCaller(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) agentCaller {
	return func(command string, limit time.Duration) (string, error) {
		answer, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.OptString, error) {
			return l.QEMUDomainAgentCommand(ref, command, int32(limit/time.Second), 0)
		})
		switch {
		case conn.IsLibvirtCode(err, golibvirt.ErrAgentUnresponsive), conn.IsLibvirtCode(err, golibvirt.ErrAgentCommandTimeout), conn.IsLibvirtCode(err, golibvirt.ErrAgentUnsynced):
			return "", fmt.Errorf("%w: %w", errNoAnswer, err)
		case err != nil:
			return "", err
		case len(answer) == 0:
			return "", errNoAnswer
		}
		return answer[0], nil
	}
}

// callAgent sends a command to the guest agent and decodes the answer, which has at most maxGuestAnswer bytes.
func callAgent[T any](ask agentCaller, limit time.Duration, command string, args any) (T, error) {
	return callAgentLimited[T](ask, limit, maxGuestAnswer, command, args)
}

// callAgentLimited is callAgent with another maximum size of the answer, in bytes.
func callAgentLimited[T any](ask agentCaller, limit time.Duration, maximum int, command string, args any) (T, error) {
	var out agentReply[T]
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, args})
	if err != nil {
		return out.Return, err
	}
	answer, err := ask(string(text), limit)
	switch {
	case err != nil:
		return out.Return, err
	case len(answer) > maximum:
		return out.Return, fmt.Errorf("%w: received more than %d KiB in answer to %s", errNoAnswer, maximum>>10, command)
	}
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		// the error must not include the guest's own text
		return out.Return, fmt.Errorf("%w: the answer to %s is not valid", errNoAnswer, command)
	}
	return out.Return, nil
}

// isCommandUnavailable reports whether the agent lacks the command or has it disabled.
func isCommandUnavailable(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "has not been found") || strings.Contains(err.Error(), "has been disabled") || strings.Contains(err.Error(), "not supported"))
}

// addNoAgentAdvice adds the advice of hypervisor.NoGuestAgentAnswerError to an error of an agent that did not answer.
func addNoAgentAdvice(err error) error {
	if errors.Is(err, errNoAnswer) {
		return fmt.Errorf("%w (%w)", hypervisor.NoGuestAgentAnswerError(), err)
	}
	return err
}
