package ledger

// isCanonical reports whether sdk.CanonicalJSON would return b as it is. It
// says no when it would have to look closer (escapes, text that is not ASCII):
// nearly every spec, launch and handle is canonical already, and going through
// it once costs a tenth of making it so.
func isCanonical(b []byte) bool {
	rest, ok := canonicalPrefix(b, 0)
	return ok && len(rest) == 0
}

// maxCanonicalDepth is below the depth at which sdk.CanonicalJSON refuses.
const maxCanonicalDepth = 50

// canonicalPrefix goes over one value and returns what follows it.
func canonicalPrefix(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth > maxCanonicalDepth {
		return nil, false
	}
	switch c := b[0]; {
	case c == '"':
		_, rest, ok = plainText(b)
		return rest, ok
	case c == '{':
		return canonicalMembers(b[1:], depth)
	case c == '[':
		return canonicalElements(b[1:], depth)
	case c == '-' || c >= '0' && c <= '9':
		return integer(b)
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(b) >= len(word) && string(b[:len(word)]) == word {
			return b[len(word):], true
		}
	}
	return nil, false
}

func canonicalMembers(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '}' {
		return b[1:], true
	}
	var last []byte
	for first := true; ; first = false {
		key, rest, ok := plainText(b)
		if !ok || len(rest) == 0 || rest[0] != ':' || !first && string(key) <= string(last) {
			return nil, false
		}
		last = key
		if b, ok = canonicalPrefix(rest[1:], depth+1); !ok || len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case '}':
			return b[1:], true
		case ',':
			b = b[1:]
		default:
			return nil, false
		}
	}
}

func canonicalElements(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) > 0 && b[0] == ']' {
		return b[1:], true
	}
	for {
		if b, ok = canonicalPrefix(b, depth+1); !ok || len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case ']':
			return b[1:], true
		case ',':
			b = b[1:]
		default:
			return nil, false
		}
	}
}

// plainText goes over a text of printable ASCII without escapes.
func plainText(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[1:i], b[i+1:], true
		case c < 0x20 || c > 0x7e || c == '\\':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// integer goes over a number without fraction and exponent.
func integer(b []byte) (rest []byte, ok bool) {
	i := 0
	if b[0] == '-' {
		i = 1
	}
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	digits := b[start:i]
	if len(digits) == 0 || digits[0] == '0' && (len(digits) > 1 || start == 1) {
		return nil, false
	}
	if i < len(b) && (b[i] == '.' || b[i] == 'e' || b[i] == 'E') {
		return nil, false
	}
	return b[i:], true
}
