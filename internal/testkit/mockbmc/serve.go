package mockbmc

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Layout is the shape of a vendor's answers, as its BMCs gave them.
type Layout string

const (
	IDRAC   Layout = "idrac"   // Dell iDRAC 9
	ILO     Layout = "ilo"     // HPE iLO 5
	OpenBMC Layout = "openbmc" // OpenBMC
	Blades  Layout = "blades"  // a chassis with two systems
)

// Layouts lists the layouts with one system.
var Layouts = []Layout{IDRAC, ILO, OpenBMC}

//go:embed layouts/*.json
var layoutFiles embed.FS

// UUID is the machine's UUID in all layouts.
const UUID = "4c4c4544-0051-3510-8052-b4c04f4d3233"

type layout struct {
	Root    map[string]any            `json:"root"`
	Systems map[string]map[string]any `json:"systems"`
}

func (b *BMC) read() (l layout) {
	text, err := layoutFiles.ReadFile("layouts/" + string(b.layout) + ".json")
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		panic(fmt.Sprintf("layout %s: %v", b.layout, err))
	}
	return l
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("OData-Version", "4.0")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func redfishError(w http.ResponseWriter, code int, text string) {
	answer(w, code, map[string]any{"error": map[string]any{
		"code": "Base.1.8.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []any{map[string]any{"MessageId": "Base.1.8.GeneralError", "Message": text, "Severity": "Critical"}},
	}})
}

func (b *BMC) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.requests++
	if r.Header.Get("Authorization") != "" {
		b.signedIn++
	}
	mode := b.mode
	b.mu.Unlock()
	if b.misbehave(mode, w, r) {
		return
	}
	l := b.read()
	at := strings.TrimSuffix(r.URL.Path, "/")
	if at == "/redfish/v1" { // needs no credentials
		answer(w, http.StatusOK, l.Root)
		return
	}
	if user, password, ok := r.BasicAuth(); !ok || user != User || password != Password || mode == Forgets {
		redfishError(w, http.StatusUnauthorized, "While accessing the resource, the service received an authorization error: unauthorized.")
		return
	}
	if at == "/redfish/v1/Systems" {
		b.listSystems(w, l)
		return
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(at, "/redfish/v1/Systems/"), "/")
	s, known := l.Systems[id]
	switch {
	case !known:
		redfishError(w, http.StatusNotFound, "The requested resource was not found.")
	case action == "" && r.Method == http.MethodGet:
		b.showSystem(w, mode, s)
	case strings.HasPrefix(action, "Actions/") && r.Method == http.MethodPost:
		b.reset(w, r, mode, s)
	default:
		redfishError(w, http.StatusMethodNotAllowed, "The method is not allowed.")
	}
}

func (b *BMC) listSystems(w http.ResponseWriter, l layout) {
	members := []any{}
	for _, s := range l.Systems {
		members = append(members, map[string]any{"@odata.id": s["@odata.id"]})
	}
	answer(w, http.StatusOK, map[string]any{
		"@odata.id": "/redfish/v1/Systems", "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Name": "Computer System Collection",
		"Members": members, "Members@odata.count": len(members),
	})
}

// settle applies a pending power state. The caller holds the lock and calls the result without it.
func (b *BMC) settle() func() {
	if b.pending == "" {
		return func() {}
	}
	if b.left > 0 {
		b.left--
		return func() {}
	}
	b.power, b.pending = b.pending, ""
	if do, state := b.onPower, b.power; do != nil {
		return func() { do(state) }
	}
	return func() {}
}

func (b *BMC) showSystem(w http.ResponseWriter, mode Mode, s map[string]any) {
	b.mu.Lock()
	done := b.settle()
	s["PowerState"] = b.power
	b.mu.Unlock()
	done()
	switch mode {
	case WrongTypes:
		s["PowerState"] = 1
	case OddWords:
		s["Model"] = "Power\x07Edge\n<b>" + strings.Repeat("x", 5000)
	case Repeats:
		s["Model"] = "R650 " + Password
	case OtherLinks:
		resetAction(s)["target"] = "@127.0.0.2:1/evil"
	case Unsupported:
		resetAction(s)["ResetType@Redfish.AllowableValues"] = []string{"GracefulShutdown", "PushPowerButton"}
	case Empty:
		s = map[string]any{}
	}
	answer(w, http.StatusOK, s)
	select {
	case b.reads <- struct{}{}:
	default:
	}
}

func resetAction(s map[string]any) map[string]any {
	actions, _ := s["Actions"].(map[string]any)
	reset, _ := actions["#ComputerSystem.Reset"].(map[string]any)
	return reset
}

func (b *BMC) reset(w http.ResponseWriter, r *http.Request, mode Mode, s map[string]any) {
	var in struct{ ResetType string }
	target, _ := resetAction(s)["target"].(string)
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || path.Clean(target) != path.Clean(r.URL.Path) {
		redfishError(w, http.StatusBadRequest, "The request body is malformed.")
		return
	}
	b.mu.Lock()
	b.resets = append(b.resets, in.ResetType)
	to := map[string]string{"On": "On", "ForceOn": "On", "ForceOff": "Off", "ForceRestart": "On", "PowerCycle": "On"}[in.ResetType]
	done := func() {}
	if mode != Lies && mode != Refuses && mode != Breaks && mode != Repeats && to != "" {
		if b.pending, b.left = to, b.lag; b.lag == 0 {
			done = b.settle()
		}
	}
	b.mu.Unlock()
	done()
	switch mode {
	case Refuses:
		redfishError(w, http.StatusBadRequest, "The server is locked by another console.")
	case Breaks:
		redfishError(w, http.StatusInternalServerError, "Internal error 0x1f.")
	case Repeats:
		redfishError(w, http.StatusBadRequest, "Not with "+r.Header.Get("Authorization")+" or "+Password)
	case HangsReset:
		b.hang(r)
	case DropsReset:
		b.drop(w)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
