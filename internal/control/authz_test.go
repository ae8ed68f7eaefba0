package control_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// own are the use cases that any person who is signed in may call, for themselves, whatever their roles. What runs inside Once
// asks for itself.
var own = []string{"ChangePassword", "ListTokens", "CreateToken", "DeleteToken", "ListViews", "SaveView", "DeleteView", "WatchKeys", "Once"}

// TestEveryUseCaseRefusesWhoHasNoRight calls every exported method, also ones that do not exist yet, with nobody and with a
// person who has no role. A method that does not take the actor second, or does not refuse, fails here.
func TestEveryUseCaseRefusesWhoHasNoRight(t *testing.T) {
	t.Parallel()
	c := control.New(testkit.DB(t), control.Options{})
	nobody := fleet.Actor{Name: "nobody", Address: "192.0.2.9"}
	roleless := fleet.Actor{UserID: "0190-nobody", Name: "roleless", Session: "s"}
	v := reflect.ValueOf(c)
	if v.NumMethod() < 40 {
		t.Fatalf("only %d methods: is this the right type?", v.NumMethod())
	}
	for i := range v.NumMethod() {
		name := v.Type().Method(i).Name
		refuses(t, name, v.Method(i), nobody)
		if !slices.Contains(own, name) {
			refuses(t, name, v.Method(i), roleless)
		}
	}
}

func refuses(t *testing.T, name string, method reflect.Value, a fleet.Actor) {
	t.Helper()
	kind := method.Type()
	if kind.NumIn() < 2 || kind.In(1) != reflect.TypeFor[fleet.Actor]() {
		t.Errorf("%s does not take the actor second", name)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	args := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(a)}
	for i := 2; i < kind.NumIn(); i++ {
		args = append(args, reflect.Zero(kind.In(i)))
	}
	out := method.Call(args)
	err, _ := reflect.TypeAssert[error](out[len(out)-1])
	switch fleet.CodeOf(err) {
	case fleet.Unauthorized, fleet.Forbidden, fleet.NotFound:
	default:
		t.Errorf("%s let %s pass: %v", name, a.Name, err)
	}
}
