package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Code says what kind of refusal an Error is; web maps it to an HTTP status in one place.
type Code string

const (
	Invalid      Code = "invalid"      // the input breaks a rule; Fields says where (422)
	Malformed    Code = "malformed"    // the input cannot be read at all (400)
	Unauthorized Code = "unauthorized" // nobody is signed in (401)
	Forbidden    Code = "forbidden"    // signed in, but without the right (403)
	NotFound     Code = "notFound"     // does not exist, or may not be seen (404)
	Conflict     Code = "conflict"     // clashes with what is there now (409)
	TooLarge     Code = "tooLarge"     // over a bound (413)
	TooMany      Code = "tooMany"      // throttled; try again later (429)
	Unavailable  Code = "unavailable"  // the database or a host does not answer (503)
)

// Error is a refusal with one sentence for people. It is made once, where the fault is understood.
type Error struct {
	Code    Code
	Message string       // a full sentence that says what to do
	Fields  []FieldError // for Invalid: one entry a field
}

// FieldError is a refusal of one input field. Field is the JSON path, "spec.disks[0].sizeBytes".
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

// Errorf makes an Error with a sentence for people.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain, or "" where there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// MaxFaults is of how many faults a refusal speaks: what was sent may have any number.
const MaxFaults = 100

// Checks collects field errors; its Err is nil while none was found.
type Checks struct {
	fields []FieldError
	more   int // that are only counted
}

// Add notes a fault of one field.
func (c *Checks) Add(field, format string, args ...any) {
	if len(c.fields) == MaxFaults {
		c.more++
		return
	}
	c.fields = append(c.fields, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Err returns an Invalid Error with the noted fields, or nil.
func (c *Checks) Err() error {
	switch len(c.fields) {
	case 0:
		return nil
	case 1:
		return &Error{Code: Invalid, Message: c.fields[0].Message, Fields: c.fields}
	}
	return &Error{Code: Invalid, Message: fmt.Sprintf("%d fields need a correction.", len(c.fields)+c.more), Fields: c.fields}
}

// Under is err with the fields below prefix named by what follows it: of one part of what was checked as a whole.
func Under(err error, prefix string) error {
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
