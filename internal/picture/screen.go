package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// style is how a piece of text looks.
type style struct {
	bold, dim bool
	// colour is the index of one of the eight colours of a terminal, or none.
	colour int
}

const none = -1

// piece is a stretch of one style.
type piece struct {
	style
	text string
}

// parse reads what a program wrote to a terminal: text, line ends, and the sequences
// that choose bold, dim and the eight colours. Anything else that moves or clears is an
// error, since a picture of it would be false.
func parse(r io.RuneReader) ([][]piece, error) {
	var rows [][]piece
	var row []piece
	var text strings.Builder
	now := style{colour: none}
	flush := func() {
		if text.Len() > 0 {
			row = append(row, piece{now, text.String()})
			text.Reset()
		}
	}
	for {
		c, _, err := r.ReadRune()
		switch {
		case errors.Is(err, io.EOF):
			if flush(); len(row) > 0 {
				rows = append(rows, row)
			}
			return rows, nil
		case err != nil:
			return nil, err
		case c == '\n':
			flush()
			rows, row = append(rows, row), nil
		case c == '\r':
		case c == 0x1b:
			flush()
			codes, err := sequence(r)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", len(rows)+1, err)
			}
			if now, err = now.with(codes); err != nil {
				return nil, fmt.Errorf("line %d: %w", len(rows)+1, err)
			}
		case unicode.IsControl(c):
			return nil, fmt.Errorf("line %d: control character %U", len(rows)+1, c)
		default:
			text.WriteRune(c)
		}
	}
}

// sequence reads the codes of an SGR sequence behind its escape.
func sequence(r io.RuneReader) (string, error) {
	var codes strings.Builder
	for i := 0; ; i++ {
		c, _, err := r.ReadRune()
		switch {
		case err != nil:
			return "", fmt.Errorf("escape sequence: %w", err)
		case i == 0 && c == '[':
		case i > 0 && c == 'm':
			return codes.String(), nil
		case i > 0 && i < 20 && (c == ';' || '0' <= c && c <= '9'):
			codes.WriteRune(c)
		default:
			return "", fmt.Errorf("escape sequence %q is none that chooses a style", "\x1b["+codes.String()+string(c))
		}
	}
}

// with is the style after the codes of a sequence.
func (s style) with(codes string) (style, error) {
	for code := range strings.SplitSeq(codes, ";") {
		n, err := strconv.Atoi("0" + code)
		switch {
		case err != nil:
			return s, fmt.Errorf("style %q: %w", code, err)
		case n == 0:
			s = style{colour: none}
		case n == 1:
			s.bold = true
		case n == 2:
			s.dim = true
		case n == 22:
			s.bold, s.dim = false, false
		case n >= 30 && n < 38:
			s.colour = n - 30
		case n == 39:
			s.colour = none
		default:
			return s, fmt.Errorf("style %d isn't known", n)
		}
	}
	return s, nil
}
