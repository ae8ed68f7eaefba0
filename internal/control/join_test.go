package control_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"sync"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

const machineA, machineB = "6d1f0c2e-0000-4000-8000-00000000000a", "6d1f0c2e-0000-4000-8000-00000000000b"

var someCSR = sync.OnceValue(func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
})

func (h *identityFixture) createJoinToken() fleet.JoinToken {
	h.t.Helper()
	token, err := h.CreateJoinToken(h.t.Context(), chief, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

func (h *identityFixture) joinHost(secret, name, machine string) (wire.JoinAnswer, error) {
	return h.JoinHost(h.t.Context(), anonymous, secret, wire.JoinRequest{Name: name, HostUUID: machine, CSR: someCSR()})
}

func parseCertificate(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no PEM: %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestMachineJoinsAsHost(t *testing.T) {
	h := newIdentityFixture(t)
	token := h.createJoinToken()
	h.wantLastAuditAction("joinToken.create")
	authority, err := h.Authority(t.Context(), fleet.SystemActor)
	if err != nil {
		t.Fatal(err)
	}
	if want := "sudo quantix agent join --portal https://portal.example:8444 --token " + token.Secret; token.Command != want {
		t.Errorf("the command is %q", token.Command)
	}
	if !strings.HasSuffix(token.Secret, "."+auth.Fingerprint(authority.Certificate())) {
		t.Errorf("the token %q does not name the authority", token.Secret)
	}
	if h.countRowsOf("join_tokens j WHERE j::text LIKE '%' || $1 || '%'", token.Secret) != 0 {
		t.Error("the secret is stored")
	}

	answer, err := h.joinHost(token.Secret, "node-1", machineA)
	if err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("host.join")
	if h.countRowsOf("hosts h JOIN host_sessions s ON s.host_id = h.id WHERE h.id = $1 AND h.name = 'node-1'", answer.HostID) != 1 {
		t.Error("no host row with its session row")
	}
	list, err := query.ReadAllPages(t.Context(), chief, fleet.Query{}, h.ListJoinTokens)
	if err != nil || len(list) != 1 || list[0].UsedAt == nil || list[0].UsedBy != "node-1" || list[0].Secret != "" {
		t.Errorf("%+v, %v", list, err)
	}

	cert := parseCertificate(t, answer.Cert)
	id, ok := auth.HostOf(cert)
	if !ok || id != answer.HostID {
		t.Errorf("the certificate names %q, not the host %q", id, answer.HostID)
	}
	host := fleet.Actor{HostID: id, Name: "host node-1", KeyHash: string(auth.KeyHash(cert))}
	next, err := h.RenewHost(t.Context(), host, someCSR())
	if err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("host.renew")
	if _, err := parseCertificate(t, next.Cert).Verify(x509.VerifyOptions{Roots: authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || next.CA != answer.CA {
		t.Error(err)
	}
	_, err = h.RenewHost(t.Context(), chief, someCSR())
	wantCode(t, err, fleet.Unauthorized)
	_, err = h.RenewHost(t.Context(), host, "")
	wantField(t, err, "csr")

	h.execSQL("DELETE FROM hosts")
	_, err = h.RenewHost(t.Context(), host, someCSR())
	wantCode(t, err, fleet.Unauthorized)
}

func TestJoinTokenUsableOnce(t *testing.T) {
	h := newIdentityFixture(t)
	secret := h.createJoinToken().Secret
	got := countCodes(runConcurrently(4, func(i int) error {
		_, err := h.joinHost(secret, "node-"+string(rune('a'+i)), "")
		return err
	}))
	if got[""] != 1 || got[fleet.Unauthorized] != 3 || h.countRowsOf("hosts") != 1 {
		t.Errorf("got %v and %d hosts", got, h.countRowsOf("hosts"))
	}
}

func TestJoinErrorDoesNotRevealTokenState(t *testing.T) {
	h := newIdentityFixture(t)
	used, revoked, expired := h.createJoinToken(), h.createJoinToken(), h.createJoinToken()
	if _, err := h.joinHost(used.Secret, "node-1", ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.RevokeJoinToken(t.Context(), chief, revoked.ID); err != nil {
			t.Fatal(err)
		}
		h.wantLastAuditAction("joinToken.revoke")
	}
	wantCode(t, h.RevokeJoinToken(t.Context(), chief, used.ID), fleet.Conflict)
	wantCode(t, h.RevokeJoinToken(t.Context(), chief, "nothing"), fleet.NotFound)
	h.execSQL("UPDATE join_tokens SET expires_at = expires_at - interval '15 minutes' WHERE id = $1", expired.ID)
	texts := map[string]bool{}
	for _, secret := range []string{"", "qxj_unknown.00", used.Secret, revoked.Secret, expired.Secret} {
		// The token is checked before the input, so that error texts reveal nothing without a valid token.
		_, err := h.JoinHost(t.Context(), anonymous, secret, wire.JoinRequest{})
		wantCode(t, err, fleet.Unauthorized)
		texts[err.Error()] = true
	}
	if len(texts) != 1 {
		t.Errorf("the refusals differ: %v", texts)
	}
}

func TestRefusedJoinLeavesTokenUnused(t *testing.T) {
	h := newIdentityFixture(t)
	if _, err := h.joinHost(h.createJoinToken().Secret, "node-1", machineA); err != nil {
		t.Fatal(err)
	}
	secret := h.createJoinToken().Secret
	_, err := h.joinHost(secret, "node-1", machineB)
	wantCode(t, err, fleet.Conflict)
	_, err = h.joinHost(secret, "node-2", strings.ToUpper(machineA))
	wantCode(t, err, fleet.Conflict)
	if !strings.Contains(err.Error(), `"node-1"`) {
		t.Errorf("the refusal does not name the host: %v", err)
	}
	_, err = h.joinHost(secret, "Node 2", machineB)
	wantField(t, err, "name")
	_, err = h.joinHost(secret, "node-2", "no uuid")
	wantField(t, err, "hostUuid")
	_, err = h.JoinHost(t.Context(), anonymous, secret, wire.JoinRequest{Name: "node-2", CSR: "no request"})
	wantField(t, err, "csr")
	if h.countRowsOf("hosts") != 1 || h.countRowsOf("audit WHERE action = 'host.join'") != 1 {
		t.Error("a refused join left rows behind")
	}
	// After the other host is deleted, the machine may join under another name with the same token.
	h.execSQL("DELETE FROM hosts")
	if _, err := h.joinHost(secret, "node-2", machineA); err != nil {
		t.Error(err)
	}
}

func TestConcurrentJoinsOfOneMachineMakeOneHost(t *testing.T) {
	h := newIdentityFixture(t)
	secrets := []string{h.createJoinToken().Secret, h.createJoinToken().Secret}
	got := countCodes(runConcurrently(2, func(i int) error {
		_, err := h.joinHost(secrets[i], "node-"+string(rune('a'+i)), machineA)
		return err
	}))
	if got[""] != 1 || got[fleet.Conflict] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestConcurrentPortalStartsShareOneCA(t *testing.T) {
	h := newIdentityFixture(t)
	prints := make([]string, 4)
	runConcurrently(4, func(i int) error {
		a, err := h.Authority(t.Context(), fleet.SystemActor)
		if err != nil {
			t.Error(err)
			return err
		}
		prints[i] = auth.Fingerprint(a.Certificate())
		return nil
	})
	for _, p := range prints {
		if p != prints[0] || p == "" {
			t.Fatalf("different authorities: %q", prints)
		}
	}
	if n := h.countRowsOf("audit WHERE action = 'authority.create'"); n != 1 {
		t.Errorf("%d authorities were made", n)
	}
}

// A host that lost its agent's files, or a replacement machine, joins again as the same host with its VMs.
func TestHostRejoinsWithItsVMs(t *testing.T) {
	h := newIdentityFixture(t)
	first, err := h.joinHost(h.createJoinToken().Secret, "node-1", machineA)
	if err != nil {
		t.Fatal(err)
	}
	other, err := h.joinHost(h.createJoinToken().Secret, "node-2", machineB)
	if err != nil {
		t.Fatal(err)
	}
	again := func(req wire.JoinRequest) (wire.JoinAnswer, error) {
		t.Helper()
		token, err := h.CreateJoinToken(t.Context(), chief, first.HostID)
		if err != nil || token.HostID != first.HostID {
			t.Fatalf("%+v, %v", token, err)
		}
		return h.JoinHost(t.Context(), anonymous, token.Secret, req)
	}
	h.execSQL("UPDATE host_sessions SET session = 'old', conflict = 'two of them' WHERE host_id = $1", first.HostID)

	for name, req := range map[string]wire.JoinRequest{
		"the same machine":               {Name: "any-name", HostUUID: machineA},
		"the agent that it was":          {Name: "node-1", HostUUID: machineA, HostID: first.HostID},
		"another machine":                {Name: "node-1", HostUUID: "6d1f0c2e-0000-4000-8000-00000000000c"},
		"an agent whose host is removed": {Name: "node-1", HostID: "6d1f0c2e-0000-7000-8000-00000000000d"},
	} {
		req.CSR = someCSR()
		answer, err := again(req)
		if err != nil || answer.HostID != first.HostID || answer.Name != "node-1" {
			t.Errorf("%s: %+v, %v", name, answer, err)
			continue
		}
		cert := parseCertificate(t, answer.Cert)
		if id, ok := auth.HostOf(cert); !ok || id != first.HostID {
			t.Errorf("%s: the certificate names host %q", name, id)
		}
		for agent, key := range map[string]string{"the new agent": string(auth.KeyHash(cert)), "another agent": "another key"} {
			actor := fleet.Actor{HostID: first.HostID, Name: "host node-1", KeyHash: key}
			_, hello := h.Hello(t.Context(), actor, wire.Hello{Instance: agent, Fingerprint: agent})
			_, renewal := h.RenewHost(t.Context(), actor, req.CSR)
			if refused := agent == "another agent"; (fleet.CodeOf(hello) == fleet.Unauthorized) != refused || (renewal != nil) != refused {
				t.Errorf("%s: %s gets %v and %v", name, agent, hello, renewal)
			}
		}
		h.execSQL("UPDATE host_sessions SET seen_at = now() WHERE host_id = $1", first.HostID)
	}
	if _, err := again(wire.JoinRequest{Name: "node-1", CSR: someCSR()}); err != nil ||
		h.countRowsOf("host_sessions s WHERE s.host_id = $1 AND s.session IS NULL AND s.conflict = ''", first.HostID) != 1 {
		t.Errorf("the host's previous agent is still accepted (%v)", err)
	}
	h.wantLastAuditAction("host.join")

	_, err = again(wire.JoinRequest{Name: "node-1", HostUUID: machineB, CSR: someCSR()})
	wantCode(t, err, fleet.Conflict)
	_, err = again(wire.JoinRequest{Name: "node-1", HostUUID: machineA, HostID: other.HostID, CSR: someCSR()})
	wantCode(t, err, fleet.Conflict)
	_, err = again(wire.JoinRequest{Name: "node-1", HostID: "no id", CSR: someCSR()})
	wantField(t, err, "hostId")
	_, err = h.JoinHost(t.Context(), anonymous, h.createJoinToken().Secret, wire.JoinRequest{Name: "node-9", HostID: first.HostID, CSR: someCSR()})
	wantCode(t, err, fleet.Conflict)

	_, err = h.CreateJoinToken(t.Context(), chief, "6d1f0c2e-0000-7000-8000-00000000000e")
	wantCode(t, err, fleet.NotFound)
	token, err := h.CreateJoinToken(t.Context(), chief, first.HostID)
	if err != nil {
		t.Fatal(err)
	}
	h.execSQL("DELETE FROM hosts WHERE id = $1", first.HostID)
	_, err = h.JoinHost(t.Context(), anonymous, token.Secret, wire.JoinRequest{Name: "node-1", CSR: someCSR()})
	wantCode(t, err, fleet.Unauthorized)
}
