package web_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/console"
	"quantix/internal/fleet"
)

// viewer is a user at the console, and the host's end of the user's connection.
type viewer struct {
	*browser
	s          *consoleHost
	id         string
	window, vm *websocket.Conn
}

// join opens the console and sends the start of a VNC client's stream.
func (s *consoleHost) join(b *browser) *viewer {
	s.t.Helper()
	ticket := s.requestTicket(b)
	window, a := s.openConsole(b, ticket)
	if window == nil {
		s.t.Fatal(a)
	}
	v := &viewer{browser: b, s: s, id: ticket.URL[strings.LastIndex(ticket.URL, "/")+1:], window: window, vm: s.dialRelay()}
	v.send(vncClientHello)
	v.requireGot(vncClientHello)
	return v
}

func (v *viewer) send(message []byte) {
	v.s.t.Helper()
	if err := v.window.WriteMessage(websocket.BinaryMessage, message); err != nil {
		v.s.t.Fatal(err)
	}
}

func (v *viewer) requireGot(want []byte) {
	v.s.t.Helper()
	if got, err := receiveBytes(v.vm, len(want)); err != nil || string(got) != string(want) {
		v.s.t.Fatalf("the VM got %x, %v; want %x", got, err, want)
	}
}

var (
	keyA          = []byte{4, 1, 0, 0, 0, 0, 0, 'a', 4, 0, 0, 0, 0, 0, 0, 'a'}
	updateRequest = []byte{3, 1, 0, 0, 0, 0, 4, 0, 3, 0}
)

// requireKeyboard waits until keys of the viewer reach the VM, or no longer do. Update requests always do.
func (v *viewer) requireKeyboard(want bool) {
	v.s.t.Helper()
	for until := time.Now().Add(10 * time.Second); ; {
		v.send(append(append([]byte{}, keyA...), updateRequest...))
		v.vm.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, got, err := v.vm.ReadMessage()
		if err != nil {
			v.s.t.Fatal(err)
		}
		types := got[0] == keyA[0]
		if types == want {
			return
		}
		if time.Now().After(until) {
			v.s.t.Fatalf("the session types: %t, want %t", types, want)
		}
	}
}

func (s *consoleHost) sessions(filter string) (out []console.Session) {
	s.t.Helper()
	page, err := s.control.ListConsoleSessions(s.t.Context(), fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}, fleet.Query{Filter: filter})
	if err != nil {
		s.t.Fatal(err)
	}
	return page.Items
}

func TestViewersHandOverKeyboard(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann, bob := s.newSignedInBrowser("ann", fleet.RoleOperator), s.newSignedInBrowser("bob", fleet.RoleOperator)
	first := s.join(ann)
	second := s.join(bob)
	first.requireKeyboard(true)
	second.requireKeyboard(false)
	people := "/vms/" + string(s.vm) + "/console?session="
	ann.get(people+first.id).contains(t, "You", "bob", "watches", "Hand over to bob")
	bob.get(people+second.id).contains(t, "ann", "types", "Ask for the keyboard", "Take the keyboard")

	bob.post("/console-sessions/"+second.id+"/ask", nil).requireStatus(t, http.StatusSeeOther)
	ann.get(people+first.id).contains(t, "asks for the keyboard", "Hand over to bob")
	ann.post("/console-sessions/"+second.id+"/keyboard", nil).requireStatus(t, http.StatusSeeOther)
	second.requireKeyboard(true)
	first.requireKeyboard(false)

	ann.post("/console-sessions/"+first.id+"/keyboard", nil).requireStatus(t, http.StatusSeeOther) // ann may change the VM: takes it
	first.requireKeyboard(true)
	second.requireKeyboard(false)

	first.window.Close()
	second.requireKeyboard(true)

	third := s.join(ann) // the same user again, while bob types
	third.requireKeyboard(false)
	again := s.join(bob) // bob types in each of his windows
	again.requireKeyboard(true)
	second.requireKeyboard(true)
	ann.post("/console-sessions/"+third.id+"/keyboard", nil).requireStatus(t, http.StatusSeeOther)
	third.requireKeyboard(true)
	again.requireKeyboard(false)
	second.requireKeyboard(false)
}

func TestSessionEndedByAnotherUser(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann, bob := s.newSignedInBrowser("ann", fleet.RoleOperator), s.newSignedInBrowser("bob", fleet.RoleOperator)
	v := s.join(ann)
	bob.get("/console-sessions").contains(t, "ann", "Open", "types")
	begin := time.Now()
	bob.post("/console-sessions/"+v.id+"/end", nil).requireStatus(t, http.StatusSeeOther)
	var said *websocket.CloseError
	if _, err := receiveBytes(v.window, 1); !errors.As(err, &said) || said.Code != websocket.ClosePolicyViolation || said.Text != "bob ended this console session." {
		t.Errorf("the session ends with %v", err)
	}
	t.Logf("ended after %s", time.Since(begin))
	if all := s.sessions("open:yes"); len(all) != 0 {
		t.Errorf("open: %+v", all)
	}
	for until := time.Now().Add(10 * time.Second); s.sessions("open:no")[0].SentBytes == 0 && time.Now().Before(until); { // the portal reports the end
		time.Sleep(10 * time.Millisecond)
	}
	all := s.sessions("open:no")
	if len(all) != 1 || all[0].EndedBy != "bob" || all[0].UserName != "ann" || all[0].Keyboard || all[0].SentBytes < int64(len(vncClientHello)) {
		t.Errorf("%+v", all)
	}
	bob.post("/console-sessions/"+v.id+"/end", nil).requireStatus(t, http.StatusConflict)
	bob.get("/console-sessions").contains(t, "Ended by bob.")
	bob.get("/console-sessions.csv").contains(t, "ann", "Ended by bob.")
	bob.get("/menus/console/"+v.id).contains(t, "The session has ended.")
}

// After an outage of PostgreSQL, sessions may count as lost. The browser then opens the console again.
func TestLostSessionMayReconnect(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	v := s.join(s.newSignedInBrowser("ann", fleet.RoleOperator))
	s.execSQL("UPDATE console_sessions SET seen_at = now() - interval '2 minutes' WHERE id = $1", v.id)
	if err := s.control.EndLostConsoleSessions(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	var said *websocket.CloseError
	if _, err := receiveBytes(v.window, 1); !errors.As(err, &said) || said.Code != websocket.CloseGoingAway {
		t.Errorf("the session ends with %v", err)
	}
	if all := s.sessions("open:no"); len(all) != 1 || all[0].EndReason != "The portal stopped." || all[0].Keyboard {
		t.Errorf("%+v", all)
	}
}

func TestConsoleSessionRefusals(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleOperator)
	vic := s.newSignedInBrowser("vic", fleet.RoleViewer)
	mia := s.newTenantBrowser("mia", s.addProject("bank")) // of another project
	v := s.join(ann)
	mia.get("/menus/console/"+v.id).requireStatus(t, http.StatusNotFound)
	mia.get("/console-sessions").excludes(t, "ann")
	mia.get("/console-sessions.csv").excludes(t, "ann")
	for _, act := range []string{"end", "ask", "keyboard"} {
		vic.post("/console-sessions/"+v.id+"/"+act, nil).requireStatus(t, http.StatusForbidden)
		mia.post("/console-sessions/"+v.id+"/"+act, nil).requireStatus(t, http.StatusNotFound)
		ann.post("/console-sessions/"+string(fleet.NewID[fleet.PairID]())+"/"+act, nil).requireStatus(t, http.StatusNotFound)
		ann.post("/console-sessions/x/"+act, nil).requireStatus(t, http.StatusNotFound)
	}
	v.send([]byte{7}) // no message of the protocol
	var said *websocket.CloseError
	if _, err := receiveBytes(v.window, 1); !errors.As(err, &said) || !strings.Contains(said.Text, "unknown message") {
		t.Errorf("%v", err)
	}
}

func TestAPIEndsConsoleSession(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	v := s.join(s.newSignedInBrowser("ann", fleet.RoleOperator))
	program := s.newAPIClient("bob", fleet.RoleOperator, nil)
	var list struct{ Items []console.Session }
	answer := program.call(http.MethodGet, "/api/v1/console-sessions?filter=open:yes", "")
	if err := json.Unmarshal([]byte(answer.body), &list); err != nil || len(list.Items) != 1 || string(list.Items[0].ID) != v.id || !list.Items[0].Keyboard {
		t.Fatalf("%s, %v", answer.body, err)
	}
	program.call(http.MethodDelete, "/api/v1/console-sessions/"+v.id, "").requireStatus(t, http.StatusNoContent)
	var said *websocket.CloseError
	if _, err := receiveBytes(v.window, 1); !errors.As(err, &said) || said.Text != "bob ended this console session." {
		t.Errorf("%v", err)
	}
}
