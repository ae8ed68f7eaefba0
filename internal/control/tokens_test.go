package control_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

func TestAPITokenHasUsersCurrentPermissions(t *testing.T) {
	h := newIdentityFixture(t)
	ann := h.addUser("ann", fleet.RoleOperator)
	token, err := h.CreateToken(t.Context(), ann, "backup job", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("token.create")
	if !strings.HasPrefix(token.Secret, "qx_") || len(token.Secret) < 46 || token.ExpiresAt == nil {
		t.Errorf("the token is %+v", token)
	}
	if h.countRowsOf("tokens t WHERE t::text LIKE '%' || $1 || '%'", token.Secret) != 0 {
		t.Error("the secret is stored")
	}
	actor := func() (fleet.Actor, error) { return h.ActorOfToken(t.Context(), anonymous, token.Secret) }
	a, err := actor()
	if err != nil || a.UserID != "ann" || a.Role != fleet.RoleOperator || a.Session != string(token.ID) || a.Address != anonymous.Address {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := h.UpdateUser(t.Context(), chief, "ann", identity.UserInput{Name: "ann", Role: fleet.RoleViewer}); err != nil {
		t.Fatal(err)
	}
	if a, err := actor(); err != nil || a.Role != fleet.RoleViewer {
		t.Errorf("after the demotion: %+v, %v", a, err)
	}
	for _, change := range []string{
		"UPDATE users SET disabled = true WHERE id = 'ann'",
		"UPDATE users SET disabled = false; UPDATE tokens SET expires_at = now()",
		"UPDATE tokens SET expires_at = NULL, hash = ''",
	} {
		for sql := range strings.SplitSeq(change, ";") {
			h.execSQL(sql)
		}
		_, err := actor()
		wantCode(t, err, fleet.Unauthorized)
	}
}

func TestTokenLastUseUpdatedOncePerMinute(t *testing.T) {
	h := newIdentityFixture(t)
	token, err := h.CreateToken(t.Context(), chief, "ci", 0)
	if err != nil || token.ExpiresAt != nil {
		t.Fatalf("%+v, %v", token, err)
	}
	use := func() time.Time {
		t.Helper()
		if _, err := h.ActorOfToken(t.Context(), anonymous, token.Secret); err != nil {
			t.Fatal(err)
		}
		list, err := query.ReadAllPages(t.Context(), chief, fleet.Query{}, h.ListTokens)
		if err != nil || len(list) != 1 || list[0].Secret != "" || list[0].LastUsedAt == nil {
			t.Fatalf("%+v, %v", list, err)
		}
		return *list[0].LastUsedAt
	}
	first := use()
	if second := use(); !second.Equal(first) {
		t.Error("each use writes the row")
	}
	h.execSQL("UPDATE tokens SET last_used_at = now() - interval '2 minutes'")
	if third := use(); !third.After(first) {
		t.Errorf("used at %v, then at %v", first, third)
	}
}

func TestTokensVisibleOnlyToOwner(t *testing.T) {
	h := newIdentityFixture(t)
	ann := h.addUser("ann", fleet.RoleViewer)
	token, err := h.CreateToken(t.Context(), ann, "mine", 0)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := query.ReadAllPages(t.Context(), chief, fleet.Query{}, h.ListTokens); err != nil || len(list) != 0 {
		t.Errorf("another's list: %v, %v", list, err)
	}
	wantCode(t, h.DeleteToken(t.Context(), chief, token.ID), fleet.NotFound)
	if err := h.DeleteToken(t.Context(), ann, token.ID); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("token.delete")
	_, err = h.ActorOfToken(t.Context(), anonymous, token.Secret)
	wantCode(t, err, fleet.Unauthorized)
}

func TestInvalidTokenInputRefused(t *testing.T) {
	h := newIdentityFixture(t)
	for _, name := range []string{" ", "two\nlines", strings.Repeat("x", 101)} {
		_, err := h.CreateToken(t.Context(), chief, name, 0)
		wantField(t, err, "name")
	}
	for _, ttl := range []time.Duration{-time.Hour, time.Second, 11 * 365 * 24 * time.Hour} {
		_, err := h.CreateToken(t.Context(), chief, "ci", ttl)
		wantField(t, err, "ttl")
	}
	h.execSQL("INSERT INTO tokens (id, user_id, name, hash) SELECT n::text, 'chief', 'n', n::text::bytea FROM generate_series(1, 100) n")
	_, err := h.CreateToken(t.Context(), chief, "ci", 0)
	wantCode(t, err, fleet.Conflict)
}

func TestChildTokenExpiresWithParent(t *testing.T) {
	h := newIdentityFixture(t)
	first, err := h.CreateToken(t.Context(), chief, "first", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	program, err := h.ActorOfToken(t.Context(), anonymous, first.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ttl  time.Duration
		last bool
	}{{0, true}, {24 * time.Hour, true}, {time.Minute, false}} {
		made, err := h.CreateToken(t.Context(), program, "second", c.ttl)
		if err != nil || made.ExpiresAt == nil || made.ExpiresAt.Equal(*first.ExpiresAt) != c.last || made.ExpiresAt.After(*first.ExpiresAt) {
			t.Errorf("for %v: %+v, %v", c.ttl, made, err)
		}
	}
	h.execSQL("UPDATE tokens SET expires_at = NULL WHERE id = $1", first.ID)
	if made, err := h.CreateToken(t.Context(), program, "third", 0); err != nil || made.ExpiresAt != nil {
		t.Errorf("by one without end: %+v, %v", made, err)
	}
	if err := h.DeleteToken(t.Context(), program, first.ID); err != nil {
		t.Fatal(err)
	}
	_, err = h.CreateToken(t.Context(), program, "fourth", 0)
	wantCode(t, err, fleet.Unauthorized)
}
