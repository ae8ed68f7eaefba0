package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorCode is the kind of an Error. Package web maps it to an HTTP status in one place.
type ErrorCode string

const (
	Invalid      ErrorCode = "invalid"      // the input breaks a rule; Fields names the fields (422)
	Malformed    ErrorCode = "malformed"    // the input cannot be parsed (400)
	Unauthorized ErrorCode = "unauthorized" // not signed in (401)
	Forbidden    ErrorCode = "forbidden"    // signed in, but without permission (403)
	NotFound     ErrorCode = "notFound"     // does not exist, or the user may not see it (404)
	Conflict     ErrorCode = "conflict"     // contradicts the current state (409)
	TooLarge     ErrorCode = "tooLarge"     // exceeds a limit (413)
	TooMany      ErrorCode = "tooMany"      // throttled; try again later (429)
	Unavailable  ErrorCode = "unavailable"  // the database or a host does not answer (503)
)

// Error is a refusal with one sentence for users. It is created where the cause is known.
type Error struct {
	Code    ErrorCode
	Message string       // complete sentence with what happened and what to do
	Fields  []FieldError // for Invalid: one entry per field
}

// FieldError is the error of one input field. Field is the JSON path: "spec.disks[0].sizeBytes".
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	if len(e.Fields) > 0 && e.Message == "" {
		return e.Fields[0].Message
	}
	return e.Message
}

// RefusalError returns a Conflict error with the reason why the object refuses an action, in one sentence.
func RefusalError(reason string) error { return Errorf(Conflict, "%s", reason) }

// Errorf returns an Error with a formatted sentence for users.
func Errorf(code ErrorCode, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain, or "".
func CodeOf(err error) ErrorCode {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// MaxFaults is the maximum number of field errors in one Error; input may contain any number.
const MaxFaults = 100

// Checks collects errors of input fields. Err returns nil if there are none.
type Checks struct {
	fields    []FieldError
	uncounted int // errors beyond MaxFaults, only counted
}

// Add adds an error of one field.
func (c *Checks) Add(field, format string, args ...any) {
	if len(c.fields) == MaxFaults {
		c.uncounted++
		return
	}
	c.fields = append(c.fields, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Len returns the number of collected field errors, up to MaxFaults.
func (c *Checks) Len() int { return len(c.fields) }

// Err returns an Invalid Error with the collected field errors, or nil.
func (c *Checks) Err() error {
	switch len(c.fields) {
	case 0:
		return nil
	case 1:
		return &Error{Code: Invalid, Message: c.fields[0].Message, Fields: c.fields}
	}
	return &Error{Code: Invalid, Message: fmt.Sprintf("%d fields need a correction.", len(c.fields)+c.uncounted), Fields: c.fields}
}

// TrimFieldPrefix returns err with prefix trimmed from its field paths. Use it for a value that was checked as a field
// of a larger object.
func TrimFieldPrefix(err error, prefix string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	out := &Error{Code: e.Code, Message: e.Message, Fields: make([]FieldError, len(e.Fields))}
	for i, f := range e.Fields {
		out.Fields[i] = FieldError{strings.TrimPrefix(f.Field, prefix), f.Message}
	}
	return out
}
