package wire

import (
	"reflect"
	"testing"
	"time"
)

// Each entry of the bounds tables names an existing field of a message, so that a renamed field does not lose its
// bound.
func TestBoundsNameExistingFields(t *testing.T) {
	t.Parallel()
	fields := map[string]bool{}
	for _, m := range []any{JoinRequest{}, RenewRequest{}, Hello{}, Report{}, ClaimRequest{}, Progress{}, Finish{}, Results{}, TransferState{}} {
		collectFields(reflect.TypeOf(m), fields)
	}
	for name := range boundsByField {
		if !fields[name] {
			t.Errorf("boundsByField names %s, which no message has", name)
		}
	}
	for name := range required {
		if !fields[name] {
			t.Errorf("required names %s, which no message has", name)
		}
	}
}

func collectFields(t reflect.Type, fields map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		collectFields(t.Elem(), fields)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return
		}
		for f := range t.Fields() {
			name := t.Name() + "." + f.Name
			if !fields[name] {
				fields[name] = true
				collectFields(f.Type, fields)
			}
		}
	}
}
