#include "textflag.h"

// Two hashes in one register: the low half is the one's, the high half the
// other's. Of the four words of each half the first two are used, a word of a to
// d and beside it its equal of e to h; in the other two is no meaning.
//
//	Y0 to Y3     a|e  b|f  c|g  d|h, each round in other registers
//	Y4 to Y7     16 words of the schedule, 4 of each hash in a register
//	Y20 to Y23   the state before the block
//	K1, K2       the words of a to d, and of e to h

#define ROTATE1  Y16 // 2 for a, 6 for e
#define ROTATE2  Y17 // 13, 11
#define ROTATE3  Y18 // 22, 25
#define REVERSE  Y19 // the bytes of each word
#define KW       Y8
#define SUM      Y9
#define SIGMA    Y10
#define T1       Y11
#define T2       Y12
#define CHOICE   Y13

// XOR3, MAJORITY and SELECT are truth tables of VPTERNLOGD.
#define XOR3     $0x96
#define MAJORITY $0xE8
#define SELECT   $0xCA

// ROUND is one round with word i of KW; D becomes the new a|e. The first sum is
// h + KW in the word of a, and d + h + KW in the word of e. To both comes
// Sigma1(e) + Ch(e, f, g), and to a also Sigma0(a) + Maj(a, b, c).
#define ROUND(A, B, C, D, i) \
	VPSHUFD    $(i*0x55), KW, T1;      \
	VPRORQ     $32, D, SUM;            \
	VPRORVD    ROTATE1, A, SIGMA;      \
	VPADDD     T1, SUM, SUM;           \
	VPRORVD    ROTATE2, A, T1;         \
	VPRORVD    ROTATE3, A, T2;         \
	VMOVDQA32  A, CHOICE;              \
	VPTERNLOGD MAJORITY, C, B, K1, CHOICE; \
	VPTERNLOGD XOR3, T2, T1, SIGMA;    \
	VPADDD     D, SUM, K2, SUM;        \
	VPTERNLOGD SELECT, C, B, K2, CHOICE; \
	VPADDD     SIGMA, CHOICE, CHOICE;  \
	VPSRLQ     $32, CHOICE, T1;        \
	VPADDD     CHOICE, SUM, SUM;       \
	VPADDD     T1, SUM, D

// ROUNDS are the four rounds from 4i on.
#define ROUNDS(W, i) \
	VBROADCASTI32X4 ·constants+(16*i)(SB), KW; \
	VPADDD W, KW, KW;          \
	ROUND(Y0, Y1, Y2, Y3, 0);  \
	ROUND(Y3, Y0, Y1, Y2, 1);  \
	ROUND(Y2, Y3, Y0, Y1, 2);  \
	ROUND(Y1, Y2, Y3, Y0, 3)

// XORED is the exclusive or of W rotated by r and s and shifted by t.
#define XORED(r, s, t, W) \
	VPRORD     $r, W, T1;  \
	VPRORD     $s, W, T2;  \
	VPSRLD     $t, W, W;   \
	VPTERNLOGD XOR3, T2, T1, W

// SCHEDULE replaces W0, the oldest of 16 words, by the next four: of these the
// last two need the first two.
#define SCHEDULE(W0, W1, W2, W3) \
	VPALIGNR $4, W0, W1, SUM; \
	VPALIGNR $4, W2, W3, KW;  \
	XORED(7, 18, 3, SUM);     \
	VPADDD   KW, W0, W0;      \
	VPADDD   SUM, W0, W0;     \
	VPSRLDQ  $8, W3, SUM;     \
	XORED(17, 19, 10, SUM);   \
	VPADDD   SUM, W0, W0;     \
	VPSLLDQ  $8, W0, SUM;     \
	XORED(17, 19, 10, SUM);   \
	VPADDD   SUM, W0, W0

// LOAD reads the words from 4i on of both blocks.
#define LOAD(i, W, LOW) \
	VMOVDQU     (16*i)(SI), LOW;       \
	VINSERTI128 $1, (16*i)(DI), W, W;  \
	VPSHUFB     REVERSE, W, W

DATA rotations<>+0(SB)/8, $0x0000000600000002
DATA rotations<>+8(SB)/8, $0x0000000b0000000d
DATA rotations<>+16(SB)/8, $0x0000001900000016
GLOBL rotations<>(SB), RODATA|NOPTR, $24
DATA reverse<>+0(SB)/8, $0x0405060700010203
DATA reverse<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL reverse<>(SB), RODATA|NOPTR, $16

// func blocks(s *state, a, b *byte, n int)
TEXT ·blocks(SB), NOSPLIT, $0-32
	MOVQ s+0(FP), AX
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DI
	MOVQ n+24(FP), CX
	MOVL $0x55, DX
	KMOVB DX, K1
	MOVL $0xAA, DX
	KMOVB DX, K2
	VPBROADCASTQ rotations<>+0(SB), ROTATE1
	VPBROADCASTQ rotations<>+8(SB), ROTATE2
	VPBROADCASTQ rotations<>+16(SB), ROTATE3
	VBROADCASTI32X4 reverse<>(SB), REVERSE
	VMOVDQU (AX), Y0
	VMOVDQU 32(AX), Y1
	VMOVDQU 64(AX), Y2
	VMOVDQU 96(AX), Y3

block:
	VMOVDQA32 Y0, Y20
	VMOVDQA32 Y1, Y21
	VMOVDQA32 Y2, Y22
	VMOVDQA32 Y3, Y23
	LOAD(0, Y4, X4)
	LOAD(1, Y5, X5)
	LOAD(2, Y6, X6)
	LOAD(3, Y7, X7)
	ROUNDS(Y4, 0)
	SCHEDULE(Y4, Y5, Y6, Y7)
	ROUNDS(Y5, 1)
	SCHEDULE(Y5, Y6, Y7, Y4)
	ROUNDS(Y6, 2)
	SCHEDULE(Y6, Y7, Y4, Y5)
	ROUNDS(Y7, 3)
	SCHEDULE(Y7, Y4, Y5, Y6)
	ROUNDS(Y4, 4)
	SCHEDULE(Y4, Y5, Y6, Y7)
	ROUNDS(Y5, 5)
	SCHEDULE(Y5, Y6, Y7, Y4)
	ROUNDS(Y6, 6)
	SCHEDULE(Y6, Y7, Y4, Y5)
	ROUNDS(Y7, 7)
	SCHEDULE(Y7, Y4, Y5, Y6)
	ROUNDS(Y4, 8)
	SCHEDULE(Y4, Y5, Y6, Y7)
	ROUNDS(Y5, 9)
	SCHEDULE(Y5, Y6, Y7, Y4)
	ROUNDS(Y6, 10)
	SCHEDULE(Y6, Y7, Y4, Y5)
	ROUNDS(Y7, 11)
	SCHEDULE(Y7, Y4, Y5, Y6)
	ROUNDS(Y4, 12)
	ROUNDS(Y5, 13)
	ROUNDS(Y6, 14)
	ROUNDS(Y7, 15)
	VPADDD Y20, Y0, Y0
	VPADDD Y21, Y1, Y1
	VPADDD Y22, Y2, Y2
	VPADDD Y23, Y3, Y3
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  block

	VMOVDQU Y0, (AX)
	VMOVDQU Y1, 32(AX)
	VMOVDQU Y2, 64(AX)
	VMOVDQU Y3, 96(AX)
	VZEROUPPER
	RET
