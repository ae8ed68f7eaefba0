package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestConsoleConnectsToVNC(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	f := p.runJob(wire.Work{Kind: fleet.ConsoleOpen, VM: vm, Epoch: 2, Args: fleet.JobArgs{Console: "c-1"}})
	if f.Outcome != wire.Done {
		t.Fatalf("the job ended %+v", f)
	}
	ws := <-p.consoles
	defer ws.Close()
	ws.SetReadDeadline(time.Now().Add(waitTimeout))
	if ws.Subprotocol() != "binary" {
		t.Errorf("the subprotocol is %q", ws.Subprotocol())
	}
	kind, hello, err := ws.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage || string(hello) != "RFB 003.008\n" {
		t.Fatalf("the screen reports %q, %v", hello, err)
	}
	ws.WriteMessage(websocket.BinaryMessage, hello)
	if _, types, err := ws.ReadMessage(); err != nil || !slices.Equal(types, []byte{1, 1}) {
		t.Errorf("security types are %v, %v", types, err)
	}
	// A stop of the guest closes the console.
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: vm, Epoch: 3})
	ws.WriteMessage(websocket.BinaryMessage, []byte{1, 1})
	for err == nil {
		_, _, err = ws.NextReader()
	}
	if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("the console ended with %v", err)
	}
}

func TestConsoleOfStoppedVMFails(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	vm := newVM("web")
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm})
	f := p.runJob(wire.Work{Kind: fleet.ConsoleOpen, VM: vm, Epoch: 2, Args: fleet.JobArgs{Console: "c-1"}})
	if f.Outcome != wire.Failed || !strings.Contains(f.Error, "not running") {
		t.Errorf("the job ended %+v", f)
	}
}
