package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/stmcginnis/gofish/common"

	"quantix/internal/fleet"
)

// Error is why a BMC did not do what it was asked for, as a sentence with the BMC's own words.
type Error struct {
	Text string
	// InDoubt: a command was sent, and the BMC may have executed it.
	InDoubt bool
}

func (e *Error) Error() string { return e.Text }

func errorf(format string, args ...any) *Error { return &Error{Text: fmt.Sprintf(format, args...)} }

// describe returns an error of gofish, of the connection or of this package as an Error.
func (c *connection) describe(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	at := c.via.host
	if refused, ok := errors.AsType[*fleet.Error](err); ok {
		return errorf("%s", refused.Message)
	}
	if answered, ok := errors.AsType[*common.Error](err); ok && answered.HTTPReturnedStatusCode != 0 {
		return c.describeAnswer(answered)
	}
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() || c.late() {
		return errorf("The BMC %s did not answer in time.", at)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return errorf("The BMC %s answered with something that is not Redfish: %s.", at, c.clean(syntax.Error()))
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errorf("The BMC %s answered with a %s where Redfish has another type, in the field %s.", at, c.clean(kind.Value), c.clean(kind.Field))
	}
	why := err.Error()
	for e := err; e != nil; e = errors.Unwrap(e) { // the innermost text names neither the method nor the URL
		why = e.Error()
	}
	return errorf("The BMC %s could not be reached: %s.", at, strings.TrimSuffix(c.clean(why), "."))
}

// describeAnswer returns the error of an answer that is no success.
func (c *connection) describeAnswer(e *common.Error) *Error {
	at, code := c.via.host, e.HTTPReturnedStatusCode
	text := e.Message
	for _, info := range e.ExtendedInfos {
		if info.Message != "" {
			text = info.Message
			break
		}
	}
	words := c.clean(text)
	switch {
	case code == http.StatusUnauthorized:
		return errorf("The BMC %s refused the user name or the password.%s", at, quoted(words))
	case code == http.StatusForbidden:
		return errorf("The BMC's user may not do this on %s.%s", at, quoted(words))
	case code >= 300 && code < 400:
		return errorf("The BMC %s answered with a redirect, which is not followed. Enter the address to which it leads.", at)
	case code == http.StatusNotFound:
		return errorf("%s has no Redfish service, or not this system.%s", at, quoted(words))
	}
	return errorf("The BMC %s answered %s.%s", at, strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code))), quoted(words))
}

func quoted(words string) string {
	if words == "" {
		return ""
	}
	return fmt.Sprintf(" It says: %s", words)
}
